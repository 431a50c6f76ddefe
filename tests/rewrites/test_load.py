"""Rules from files: in the file's order, one sentence with the place for everything that is wrong."""

from __future__ import annotations

import sys
import textwrap

import pytest

from rewrites.load import Misdefined, RuleFileError, load_rules, read_rules

RULES = '''
import torch
from jaxtyping import Float
from torch import Tensor
from rewrites import Rule


class Second(Rule):
    """Addition commutes."""

    source = "commutativity"

    def pattern(x: Float[Tensor, "n"], y: Float[Tensor, "n"]):
        return x + y

    def replacement(x, y):
        return y + x


class First(Rule):
    """Relu of relu is relu."""

    source = "idempotence"

    def pattern(x: Float[Tensor, "..."]):
        return torch.relu(torch.relu(x))

    def replacement(x):
        return torch.relu(x)
'''


@pytest.fixture
def write(tmp_path):
    def write(text, name="rules.py"):
        file = tmp_path / name
        file.write_text(textwrap.dedent(text))
        return str(file)

    return write


def refused(spec) -> str:
    with pytest.raises(RuleFileError) as caught:
        load_rules(spec)
    message = str(caught.value)
    assert "\n" not in message
    return message


def names(rules):
    return [rule.__name__ for rule in rules]


def test_rules_come_in_the_order_of_the_file(write):
    assert names(load_rules(write(RULES))) == ["Second", "First"]


def test_one_rule_is_named(write):
    file = write(RULES)
    assert names(load_rules(f"{file}::First")) == ["First"]
    assert refused(f"{file}::Third") == f"{file}: has no rule Third; it has Second, First"


def test_several_rules_are_named(write):
    file = write(RULES + "\n\ndef function(x):\n    return x\n")
    assert names(load_rules(f"{file}::First, Second")) == ["First", "Second"]
    assert "must be two functions or rules alone, got the rule First" in refused(f"{file}::First,function")


def test_rules_imported_from_elsewhere_are_not_the_files_own(write):
    write(RULES, "others.py")
    file = write("from others import First\n" + RULES.replace("class First", "class Third"))
    try:
        assert names(load_rules(file)) == ["Second", "Third"]
        assert names(load_rules(f"{file}::First")) == ["First"]
    finally:
        sys.modules.pop("others", None)


def test_the_files_folder_is_on_the_path_only_while_it_runs(write, tmp_path):
    before = list(sys.path)
    load_rules(write(RULES))
    assert sys.path == before
    refused(write("1 / 0"))
    assert sys.path == before
    assert str(tmp_path) not in sys.path


def test_a_missing_file_a_folder_and_an_unknown_kind(write, tmp_path):
    assert refused(str(tmp_path / "absent.py")) == f"{tmp_path / 'absent.py'}: no such file"
    assert refused(str(tmp_path)) == f"{tmp_path}: is not a file"
    file = write("rules", "rules.txt")
    assert refused(file) == f"{file}: rules are read from .py and .json files"


def test_a_file_that_does_not_parse(write):
    file = write("x = 1\ndef broken(:\n")
    assert refused(file).startswith(f"{file}:2: does not parse: ")


def test_a_file_that_raises(write):
    file = write("x = 1\n\ndef helper():\n    raise KeyError('some\\nkey')\n\nhelper()\n")
    assert refused(file) == f"{file}:4: raised KeyError: 'some\\nkey'"
    file = write("import sys\nsys.exit(3)\n")
    assert refused(file) == f"{file}:2: raised SystemExit: 3"
    file = write("import absent_module_of_no_name\n")
    assert f"{file}:1: raised ModuleNotFoundError: No module named" in refused(file)


def test_a_file_that_failed_leaves_no_module_behind(write):
    before = set(sys.modules)
    refused(write("1 / 0"))
    assert not {name for name in set(sys.modules) - before if name.startswith("rules_")}


def test_a_file_that_is_not_text(tmp_path):
    file = tmp_path / "rules.py"
    file.write_bytes(b"\xff\xfe\x00")
    assert "raised UnicodeDecodeError" in refused(str(file)) or "does not parse" in refused(str(file))


def test_a_rule_that_is_refused_is_named_with_its_line(write):
    file = write(RULES.replace('    source = "idempotence"\n', ""))
    assert refused(file).startswith(f"{file}:20: First: a rule needs a `source`")


def test_what_makes_no_rule_stands_among_the_rules(write):
    file = write(RULES.replace('    source = "commutativity"\n', ""))
    misdefined, first = read_rules(file)
    assert isinstance(misdefined, Misdefined) and first.__name__ == "First"
    assert (misdefined.name, misdefined.file, misdefined.line) == ("Second", file, 8)
    assert misdefined.sentence.startswith("a rule needs a `source`")
    assert names(load_rules(f"{file}::First")) == ["First"]
    assert refused(f"{file}::Second,First").startswith(f"{file}:8: Second: a rule needs a `source`")


def test_what_makes_no_rule_in_another_file_is_that_files_fault(write):
    write(RULES.replace('    source = "commutativity"\n', ""), "misdefining.py")
    try:
        assert "Second: a rule needs a `source`" in refused(write("from misdefining import First\n" + RULES))
    finally:
        sys.modules.pop("misdefining", None)


def test_a_file_without_rules(write):
    file = write("x = 1\n")
    assert refused(file) == f"{file}: holds no class derived from rewrites.Rule and no pair of functions"
    assert refused(f"{file}::First") == f"{file}: has no rule First"


def test_a_file_that_imports_rule_holds_no_rule(write):
    assert "holds no class" in refused(write("from rewrites import Rule\n"))


PAIRS = """
import torch

def twice(x):
    return torch.relu(torch.relu(x))

def once(x):
    return torch.relu(x)

idempotence = (twice, once, [torch.randn(3, 4)])
more = [(lambda x, y: x + y, lambda x, y: y + x, [torch.randn(3), torch.randn(3)])]
not_a_pair = (1, 2, 3)
"""


def test_pairs_at_the_top_level_are_rules(write):
    rules = load_rules(write(PAIRS))
    assert names(rules) == ["idempotence", "Pair2"]
    assert "given as a pair of functions" in rules[0].source


def test_pairs_given_to_register_replacement_are_rules(write):
    from torch._inductor import pattern_matcher

    registered = pattern_matcher.register_replacement
    text = PAIRS.split("idempotence =")[0] + (
        "from torch._inductor.pattern_matcher import register_replacement, fwd_only, PatternMatcherPass\n"
        "register_replacement(twice, once, [torch.randn(3, 4)], fwd_only, PatternMatcherPass())\n"
    )
    (rule,) = load_rules(write(text))
    assert rule.__name__ == "twice"
    assert pattern_matcher.register_replacement is registered


def test_a_pair_that_cannot_be_a_rule_is_refused(write):
    file = write(PAIRS.replace("[torch.randn(3, 4)]", "[torch.randn(3, 4), 1]"))
    assert refused(file) == f"{file}:4: idempotence: example inputs must be one for each argument of the pattern (x), got 2"


FUNCTIONS = """
import torch
from jaxtyping import Float
from torch import Tensor

def twice(x: Float[Tensor, "m n"]):
    return torch.relu(torch.relu(x))

def once(x):
    return torch.relu(x)

def bare(x):
    return torch.relu(torch.relu(x))
"""


def test_two_functions_are_a_rule(write):
    file = write(FUNCTIONS)
    (rule,) = load_rules(f"{file}::twice,once")
    assert rule.__name__ == "twice"
    assert rule.statement() == "What twice computes, once computes."
    assert refused(f"{file}::twice,thrice") == f"{file}: has no function thrice"
    assert "two functions are needed" in refused(f"{file}::twice,once,bare")
    assert "parameter x needs an annotation" in refused(f"{file}::bare,once")


def test_a_taso_collection_is_read_by_its_suffix(write):
    file = write(
        """[{"id": 3, "srcOp": [{"type": "OP_RELU", "inputs": [{"opId": -1, "tsId": 0}], "params": {}},
                                {"type": "OP_RELU", "inputs": [{"opId": 0, "tsId": 0}], "params": {}}],
             "dstOp": [{"type": "OP_RELU", "inputs": [{"opId": -1, "tsId": 0}], "params": {}}],
             "mappedOutput": [{"srcOpId": 1, "dstOpId": 0, "srcTsId": 0, "dstTsId": 0}]}]""",
        "rules.json",
    )
    assert names(load_rules(file)) == ["Taso3"]
    assert names(load_rules(f"{file}::Taso3")) == names(load_rules(f"{file}::3")) == ["Taso3"]
    assert refused(f"{file}::4") == f"{file}: has no rule 4; it has 3"
    broken = write("[17]", "broken.json")
    assert "is not of TASO's form" in refused(broken)
