"""Every JSON document of memqos as types: memqos.schema.json is made of them."""
