"""The build: what takes longest is begun first, and it says how far it is."""

import os
import runpy
import sys
from pathlib import Path
from subprocess import check_output

import pytest


@pytest.fixture(scope="module")
def build(root):
    sys.path.insert(0, str(root / "scripts/build"))
    try:
        return runpy.run_path(str(root / "scripts/build/native.py"))
    finally:
        sys.path.remove(str(root / "scripts/build"))


def test_sources_that_take_longest_are_there(build, root):
    folder = root / "kernels/native"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*.cpp")}
    assert set(build["LONGEST"]) <= names


def test_c_sources_come_last(build, root):
    paths = [path for name in ("kernels", "udas") for path in sorted((root / name).rglob("*.c*"))]
    jobs = [build["Job"](path, ["cc"]) for path in paths if path.is_file()]
    jobs = [job for job in jobs if job.source.suffix in {".c", ".cpp"}]
    paths = [job.source for job in sorted(jobs, key=lambda job: job.rank)]
    names = [f"{path.parent.name}/{path.name}" for path in paths]
    assert tuple(names[: len(build["LONGEST"])]) == build["LONGEST"]
    first_c = next(place for place, name in enumerate(names) if name.endswith(".c"))
    assert all(name.endswith(".c") for name in names[first_c:])


def test_it_says_how_far_it_is_and_compiles_what_changed_only(
    build, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for name in ("a.c", "b.c"):
        Path(name).write_text(f"int {name[0]};\n")
    jobs = [build["Job"](Path(name), ["cc"]) for name in ("a.c", "b.c")]
    build["compile_all"]([*jobs, jobs[0]])
    told = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in told] == ["compiled 1 of 2", "compiled 2 of 2"]
    assert all(job.target.is_file() for job in jobs)
    build["compile_all"](jobs)
    assert capsys.readouterr().out == ""


def test_an_object_serves_while_what_was_read_for_it_is_the_same(
    build, tmp_path, monkeypatch, capsys
):
    def compile_in(folder, header):
        monkeypatch.chdir(folder)
        Path("a.h").write_text(header)
        Path("a.c").write_text('#include "a.h"\n')
        build["digest"].cache_clear()
        build["compile_all"]([job := build["Job"](Path("a.c"), ["cc"])])
        return job.target, capsys.readouterr().out

    monkeypatch.setitem(build["Job"].__init__.__globals__, "OBJECTS", tmp_path / "objects")
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    target, told = compile_in(folders[0], "int a;\n")
    assert "compiled 1 of 1" in told
    assert compile_in(folders[1], "int a;\n") == (target, "")  # another checkout
    for name in ("a.c", "a.h"):
        os.utime(name)
    assert compile_in(folders[1], "int a;\n") == (target, "")
    assert "compiled 1 of 1" in compile_in(folders[1], "long a;\n")[1]
    target.unlink()
    assert "compiled 1 of 1" in compile_in(folders[1], "long a;\n")[1]


@pytest.mark.nightly
def test_precompiled_headers_change_no_object(build, root, tmp_path, monkeypatch):
    if "Free Software Foundation" not in check_output(["c++", "--version"], text=True):
        pytest.skip("GCC alone reads them")
    monkeypatch.setitem(build["Job"].__init__.__globals__, "OBJECTS", tmp_path / "objects")
    monkeypatch.setitem(build["share_headers"].__globals__, "SHARING", 1)
    monkeypatch.setenv("CXX", "c++")
    monkeypatch.chdir(tmp_path)
    header = Path("scripts/build/standard.hpp")
    header.parent.mkdir(parents=True)
    header.write_text((root / header).read_text())
    Path("a.cpp").write_text("#include <vector>\nstd::vector<int> a() { return {1, 2}; }\n")
    command = ["c++", "-std=c++20", "-O2"]
    job, alone = (build["Job"](Path("a.cpp"), command) for _ in range(2))
    alone.target = Path("alone.o")
    build["share_headers"]([job])
    build["compile_all"]([job])
    alone.compile()
    assert job.target.read_bytes() == alone.target.read_bytes()
    read = [job_.target.with_suffix(".d").read_text() for job_ in (job, alone)]
    assert [("/vector " in one, "/unordered_map" in one) for one in read] == [
        (True, True),
        (True, False),
    ]
    header.write_text("")
    build["digest"].cache_clear()
    assert not build["is_fresh"](job.target)
