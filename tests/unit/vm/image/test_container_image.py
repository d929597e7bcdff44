import hashlib
import io
import json
import tarfile

from memqos.vm.image.recipe import container_image, container_image_name


def unpack(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}


def test_same_program_gives_the_same_bytes():
    assert container_image("pause", b"\x7fELF", architecture="amd64") == container_image(
        "pause", b"\x7fELF", architecture="amd64"
    )
    assert container_image("pause", b"\x7fELF", architecture="amd64") != container_image(
        "pause", b"\x7fELG", architecture="amd64"
    )


def test_archive_is_coherent():
    files = unpack(container_image("memload", b"\x7fELF program", architecture="amd64"))
    (manifest,) = json.loads(files["manifest.json"])
    assert manifest["RepoTags"] == ["memqos.local/memload:1"]
    config = json.loads(files[manifest["Config"]])
    assert manifest["Config"] == hashlib.sha256(files[manifest["Config"]]).hexdigest() + ".json"
    (layer,) = manifest["Layers"]
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(files[layer]).hexdigest()]
    assert config["config"] == {
        "Entrypoint": ["/memload"],
        "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],
        "WorkingDir": "/",
    }
    assert (config["os"], config["architecture"]) == ("linux", "amd64")


def test_layer_holds_the_program_and_a_folder_for_temporary_files():
    files = unpack(container_image("memload", b"\x7fELF program", architecture="amd64"))
    with tarfile.open(fileobj=io.BytesIO(files["layer.tar"])) as layer:
        assert [(member.name, member.mode) for member in layer] == [("tmp", 0o1777), ("memload", 0o755)]
        assert layer.extractfile("memload").read() == b"\x7fELF program"


def test_name_is_the_one_that_manifests_use():
    assert container_image_name("pause") == "memqos.local/pause:1"
