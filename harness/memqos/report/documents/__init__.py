"""Every JSON document of memqos as types, from which memqos.schema.json is generated."""
