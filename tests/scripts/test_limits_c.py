"""The check of limits in C and C++ finds functions, counts their lines and parameters."""

import importlib

import pytest


@pytest.fixture
def limits(root, monkeypatch):
    """The module `scripts/lint/limits_c.py`."""
    monkeypatch.syspath_prepend(str(root / "scripts/lint"))
    return importlib.import_module("limits_c")


TEXT = """
// int gone(int a) { return a; }
int two(int a, std::pair<int, int> b) {
    if (a) { return 1; } // not a function

    for (int i = 0; i < 3; i++) { a += i; }
    auto inner = [&](int x, int y, int z) { return x; };
    return a;
}
#define TRICK(a) { a }
class Thing : public Base {
public:
    Thing(int a) : a_(a), b_{2} { start(); }
    template <class T, int N> void call(T (*function)(int, int)) const { function(1, 2); }
    double x_[2] = {1, 2};
};
struct Plain { int a; };
extern "C" __global__ void __launch_bounds__(32, 2) launched(const float *x, long n)
{
    const char *text = "{ not a brace }";
}
"""


def test_functions_are_found_with_their_lines_and_parameters(limits):
    found = {each.name: (each.lines, each.parameters) for each in limits.functions(TEXT)}
    assert found == {"two": (6, 2), "Thing": (1, 1), "call": (1, 1), "launched": (4, 2)}


@pytest.mark.parametrize(
    ("lines", "parameters", "wanted"), [(38, 7, 0), (39, 7, 1), (38, 8, 1), (39, 8, 2)]
)
def test_what_is_beyond_a_limit_is_named(limits, tmp_path, lines, parameters, wanted):
    source = tmp_path / "long.cpp"
    given = ", ".join(f"int a{i}" for i in range(parameters))
    source.write_text(f"void f({given}) {{\n" + "    g();\n" * lines + "}\n")
    assert len(list(limits.findings(source, "long.cpp"))) == wanted


def test_blank_lines_and_comments_are_no_code(limits, tmp_path):
    source = tmp_path / "long.cpp"
    source.write_text("// text\n\n" * 400 + "int a;\n" * 400)
    assert list(limits.findings(source, "long.cpp")) == []
    source.write_text("int a;\n" * 401)
    assert [key for key, _ in limits.findings(source, "long.cpp")] == ["long.cpp"]


def test_the_sources_are_within_the_limits(limits, root, monkeypatch, capsys):
    monkeypatch.chdir(root)
    assert limits.main([]) == 0, capsys.readouterr().out
