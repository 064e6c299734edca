# SPDX-License-Identifier: Apache-2.0
"""Mutants of C sources: every small change that an operator can make, by tokens, so that changes stay inside of what they change.

universalmutator's rules work on single lines of text. Here statements, conditions and initializers go over several lines, which
is where such rules end; ci/mutants.py takes both, `RULES=` says which.
"""

import bisect
import contextlib
import hashlib
import importlib
import io
import re

TOKEN = re.compile(r"""
      (?P<skip>\s+ | /\*.*?\*/ | //[^\n]*)
    | (?P<directive>^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*)
    | (?P<string>"(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
    | (?P<number>(?:0[xX][0-9a-fA-F]+|\d+)(?:\.\d+)?[uUlL]*)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<punct><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\.\.\.|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    """, re.VERBOSE | re.DOTALL | re.MULTILINE)

RELATIONS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": ("-",), "-": ("+",), "*": ("/",), "/": ("*", "%"), "%": ("/", "*")}
BITS = {"<<": (">>",), ">>": ("<<",), "&": ("|",), "|": ("&",), "^": ("|",)}
LOGIC = {"&&": ("||",), "||": ("&&",)}
ASSIGNMENTS = {"+=": ("-=", "="), "-=": ("+=", "="), "*=": ("/=",), "/=": ("*=",), "|=": ("&=", "="), "&=": ("|=",), "^=": ("|=",),
               "<<=": (">>=",), ">>=": ("<<=",), "++": ("--",), "--": ("++",)}
# What is easily taken for one another in this engine.
TWINS = {"true": "false", "false": "true", "CPR_SEND": "CPR_RECV", "CPR_RECV": "CPR_SEND", "CPR_ZIGZAG": "CPR_CONTIGUOUS",
         "CPR_CONTIGUOUS": "CPR_ZIGZAG", "CPR_INT32": "CPR_INT64", "CPR_INT64": "CPR_INT32", "source": "target", "target": "source",
         "source_row": "target_row", "target_row": "source_row", "cp_size": "cp_rank", "begin": "end", "end": "begin",
         "INT32_MAX": "INT64_MAX", "INT64_MAX": "INT32_MAX", "send": "recv", "recv": "send", "before": "after", "after": "before",
         "CPR_GUARD_VERSION": "CPR_GUARD_CONTENT", "CPR_GUARD_CONTENT": "CPR_GUARD_VERSION"}
# Before a binary operator stands something that has a value.
VALUE_ENDS = {")", "]"}
NO_VALUE_WORDS = {"return", "case", "else", "sizeof", "goto", "do", "const"}
STATEMENT_ENDS = {";", "{", "}"}
JUMPS = {"return", "goto", "typedef", "extern", "case", "default", "struct", "enum", "static", "const", "union", "_Static_assert"}
# A count and a size, which are multiplied: swapping them says nothing.
COUNT_AND_SIZE = {"cpr_allocate": 1, "cpr_release": 2}
OPENERS, CLOSERS = "([{", ")]}"


class Mutant:
    """One change: the text from `begin` to `end` of a file becomes `text`."""

    def __init__(self, operator, begin, end, text):
        self.operator, self.begin, self.end, self.text = operator, begin, end, text

    def apply(self, source):
        return source[:self.begin] + self.text + source[self.end:]


class Source:
    """The tokens of a file, comments and directives left out, with the partner of every bracket."""

    def __init__(self, text):
        self.text = text
        self.tokens = []  # (kind, text, begin, end)
        for found in TOKEN.finditer(text):
            if found.lastgroup not in ("skip", "directive"):
                self.tokens.append((found.lastgroup, found.group(), found.start(), found.end()))
        self.partner = self.pair_brackets()
        self.lines = [0] + [found.end() for found in re.finditer(r"\n", text)]

    def pair_brackets(self):
        partner, opened = {}, []
        for i, (_, text, _, _) in enumerate(self.tokens):
            if text in OPENERS:
                opened.append(i)
            elif text in CLOSERS and opened:
                partner[i] = opened.pop()
                partner[partner[i]] = i
        return partner

    def __len__(self):
        return len(self.tokens)

    def word(self, i):
        return self.tokens[i][1] if 0 <= i < len(self.tokens) else ""

    def kind(self, i):
        return self.tokens[i][0] if 0 <= i < len(self.tokens) else ""

    def span(self, first, last):
        """Text positions of the tokens first to last."""
        return self.tokens[first][2], self.tokens[last][3]

    def between(self, first, last):
        begin, end = self.span(first, last)
        return self.text[begin:end]

    def line(self, position):
        return bisect.bisect_right(self.lines, position)

    def has_value(self, i):
        """Is token i the end of something with a value, so that an operator after it is a binary one?"""
        if self.kind(i) == "word":
            return self.word(i) not in NO_VALUE_WORDS
        return self.kind(i) in ("number", "string") or self.word(i) in VALUE_ENDS

    def is_binary(self, i):
        """Declarations, `int64_t *rows`, and casts, `(char *)to`, have a star that multiplies nothing."""
        if not self.has_value(i - 1) or self.word(i + 1) in (")", ",", ";"):
            return False
        if self.word(i) != "*":
            return not self.is_cast(i - 1)
        before = self.word(i - 1)
        return not (before.endswith("_t") or before in ("char", "void", "const", "*") or self.is_type_name(i - 1) or self.is_cast(i - 1))

    def is_cast(self, i):
        """A bracket that closes around the name of a type alone."""
        if self.word(i) != ")" or i not in self.partner:
            return False
        inside = [self.word(k) for k in range(self.partner[i] + 1, i)]
        return bool(inside) and (inside[-1] == "*" or (len(inside) <= 2 and inside[-1].endswith("_t")) or inside == ["int"])

    def is_type_name(self, i):
        """A star between two words at the begin of a statement or parameter declares."""
        before = self.word(i - 1)
        return self.kind(i) == "word" and (before in STATEMENT_ENDS or before in ("(", ",", "const", "static", "inline", "struct")) \
            and self.kind(i + 2) == "word" and self.word(i + 3) in ("=", ";", ",", ")", "(", "[")

    def in_body(self, i):
        return any(begin < i < end for begin, end in self.bodies())

    def bodies(self):
        """Token ranges of function bodies: a brace after a closing bracket, at the top."""
        if not hasattr(self, "found_bodies"):
            self.found_bodies = []
            i = 0
            while i < len(self):
                if self.word(i) == "{" and i in self.partner:
                    if self.word(i - 1) == ")":
                        self.found_bodies.append((i, self.partner[i]))
                    i = self.partner[i]
                i += 1
        return self.found_bodies

    def result_type(self, i):
        """The words before the name of the function whose body token i is in."""
        for begin, end in self.bodies():
            if begin < i < end:
                name = last = self.partner[begin - 1] - 1
                while last > 0 and self.word(last - 1) not in (";", "}", ">") and (self.kind(last - 1) == "word" or self.word(last - 1) == "*"):
                    last -= 1
                return [self.word(k) for k in range(last, name)]
        return []

    def statements(self):
        """(first, last) tokens of simple statements in bodies, the semicolon included."""
        for begin, end in self.bodies():
            i = begin + 1
            while i < end:
                if self.word(i) in ("{", "}", ";") or (self.word(i) in ("else", "do")):
                    i += 1
                    continue
                if self.word(i) in ("if", "while", "for", "switch"):
                    i = self.partner.get(i + 1, i) + 1
                    continue
                first = i
                while i < end and self.word(i) != ";":
                    i = self.partner[i] + 1 if self.word(i) in OPENERS and i in self.partner else i + 1
                yield first, i
                i += 1

    def conditions(self):
        """(first, last) tokens inside the brackets of if, while and the middle of for; what a question mark asks."""
        for i in range(len(self)):
            if self.word(i) in ("if", "while") and self.word(i + 1) == "(":
                yield i + 2, self.partner[i + 1] - 1
            elif self.word(i) == "for" and self.word(i + 1) == "(":
                semicolons = [k for k in range(i + 2, self.partner[i + 1]) if self.word(k) == ";"]
                if len(semicolons) == 2 and semicolons[1] > semicolons[0] + 1:
                    yield semicolons[0] + 1, semicolons[1] - 1
            elif self.word(i) == "?":
                first = i
                while first > 0 and self.word(first - 1) not in ("=", "return", ",", "(", "{", ";", "?", ":", "["):
                    first = self.partner.get(first - 1, first - 1) if self.word(first - 1) in CLOSERS else first - 1
                if first < i:
                    yield first, i - 1


def replaced(operator, source, i, *texts):
    begin, end = source.span(i, i)
    return [Mutant(operator, begin, end, text) for text in texts]


def of_tokens(source):
    for i in range(len(source)):
        word = source.word(i)
        if source.kind(i) == "number":
            yield from off_by_one(source, i)
        elif source.kind(i) == "word":
            if word in TWINS and source.word(i + 1) not in ("(",) and not declares(source, i):
                yield from replaced("twin", source, i, TWINS[word])
        elif word in RELATIONS:
            yield from replaced("relation", source, i, *RELATIONS[word])
        elif word in LOGIC:
            yield from replaced("logic", source, i, *LOGIC[word])
        elif word in ASSIGNMENTS:
            yield from replaced("assignment", source, i, *ASSIGNMENTS[word])
        elif word in ARITHMETIC and source.is_binary(i):
            yield from replaced("arithmetic", source, i, *ARITHMETIC[word])
        elif word in BITS and source.is_binary(i):
            yield from replaced("bits", source, i, *BITS[word])
        elif word in "!~-" and not source.has_value(i - 1):
            yield from replaced("sign", source, i, "")


def declares(source, i):
    """A member or parameter on its own says nothing; only its uses do."""
    return source.word(i + 1) in (";",) and not source.in_body(i) or source.word(i - 1).endswith("_t") or not source.in_body(i)


def off_by_one(source, i):
    word = source.word(i)
    digits = re.match(r"0[xX][0-9a-fA-F]+|\d+$|\d+(?=[uUlL])", word)
    if not digits or not source.in_body(i):
        return []
    value = int(digits.group(), 0)
    suffix = word[digits.end():]
    return replaced("constant", source, i, *(f"{other}{suffix}" for other in (value + 1, value - 1) if other >= 0))


def of_conditions(source):
    for first, last in source.conditions():
        begin, end = source.span(first, last)
        for text in (f"!({source.text[begin:end]})", "1", "0"):
            yield Mutant("condition", begin, end, text)


def of_statements(source):
    for first, last in source.statements():
        begin, end = source.span(first, last)
        if source.word(first) == "return" and last > first + 1:
            inside = source.span(first + 1, last - 1)
            yield from of_result(source, first, *inside)
        if source.word(first) in JUMPS or is_declaration(source, first, last):
            continue
        yield Mutant("dropped", begin, end, ";")


def wrong_results(kind, value):
    """What a function of that type might return instead of a value."""
    if kind[-1] == "*":
        return [] if value == "NULL" else ["NULL"]
    if kind[-1] == "bool":
        return [] if value in ("true", "false") else [f"!({value})"]  # those two have a twin
    if kind[-1] == "cpr_status":
        return [] if value == "CPR_OK" else [f"(({value}), CPR_OK)"]
    return [f"({value}) + 1"] if re.search(r"int|size_t", kind[-1]) else []


def of_result(source, at, begin, end):
    kind = source.result_type(at)
    for value in wrong_results(kind, source.text[begin:end]) if kind else []:
        yield Mutant("result", begin, end, value)


def is_declaration(source, first, last):
    return source.kind(first) == "word" and (source.kind(first + 1) == "word" or
                                             (source.word(first + 1) == "*" and source.word(first + 3) in ("=", ";", "[")))


def of_brackets(source):
    for i in range(len(source)):
        if i not in source.partner or source.partner[i] < i or not source.in_body(i):
            continue
        if source.word(i) == "[" and source.has_value(i - 1) and source.partner[i] > i + 1 and not is_declaration(source, i - 2, i):
            begin, end = source.span(i + 1, source.partner[i] - 1)
            yield Mutant("off by one", begin, end, f"({source.text[begin:end]}) + 1")
            yield Mutant("off by one", begin, end, f"({source.text[begin:end]}) - 1")
        elif source.word(i) == "(" and source.kind(i - 1) == "word" and source.word(i - 1) not in ("if", "while", "for", "switch", "return",
                                                                                                   "sizeof"):
            yield from swapped_arguments(source, i)
        elif source.word(i) == "{":
            yield from dropped_members(source, i)


def parts(source, opening):
    """(first, last) tokens of what commas part inside of a bracket."""
    first = i = opening + 1
    closing = source.partner[opening]
    while i < closing:
        if source.word(i) == ",":
            yield first, i - 1
            first = i + 1
        i = source.partner[i] + 1 if source.word(i) in OPENERS and i in source.partner else i + 1
    if first < closing:
        yield first, closing - 1


def swapped_arguments(source, opening):
    arguments = [part for part in parts(source, opening) if part[0] <= part[1]]
    for number, ((a, b), (c, d)) in enumerate(zip(arguments, arguments[1:])):
        if COUNT_AND_SIZE.get(source.word(opening - 1)) == number:
            continue
        left, right = source.between(a, b), source.between(c, d)
        if left != right and not re.search(r"[{]", left + right):
            begin, end = source.span(a, d)
            yield Mutant("arguments", begin, end, f"{right}, {left}")


def dropped_members(source, opening):
    for first, last in parts(source, opening):
        if source.word(first) == "." and source.word(first + 2) == "=":
            begin, end = source.span(first, last)
            comma = source.text[end:end + 1] == ","
            yield Mutant("dropped", begin, end + comma, "")


def own(text):
    source = Source(text)
    for operator in (of_tokens, of_conditions, of_statements, of_brackets):
        yield from operator(source)


def universal(text):
    """universalmutator's rules for C, by line."""
    mutator = importlib.import_module("universalmutator.mutator")
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    with contextlib.redirect_stdout(io.StringIO()):
        found = mutator.mutants_regexp(lines, ["universal.rules", "c_like.rules", "c.rules"], ignorePatterns=[])
    for number, changed in (mutant[:2] for mutant in found):
        yield Mutant("universal", starts[number - 1], starts[number] - 1, changed.rstrip("\n"))


RULES = {"own": own, "universal": universal}


def squeezed(text):
    return " ".join(text.split())


def described(name, text, mutant, source):
    """What is kept of a mutant. Its key is made of the lines that it changes and not of where they are, so that it stays the same
    when other lines do not; equal lines of a file are told apart by number."""
    first = text.rfind("\n", 0, mutant.begin) + 1
    last = text.find("\n", mutant.end)
    last = len(text) if last < 0 else last
    before = squeezed(text[first:last])
    after = squeezed(text[first:mutant.begin] + mutant.text + text[mutant.end:last])
    return {"file": name, "line": source.line(mutant.begin), "operator": mutant.operator, "before": before, "after": after,
            "span": [mutant.begin, mutant.end, mutant.text]}


def mutants_of(name, text, rules):
    """Descriptions of all mutants of a file, each once."""
    source = Source(text)
    seen, times = set(), {}
    for rule in rules:
        for mutant in RULES[rule](text):
            changed = hashlib.sha1(mutant.apply(text).encode()).hexdigest()
            if changed in seen or mutant.apply(text) == text:
                continue
            seen.add(changed)
            found = described(name, text, mutant, source)
            if found["before"] == found["after"]:
                continue
            same = found["file"], found["before"], found["after"]
            times[same] = found["nth"] = times.get(same, 0) + 1
            found["id"] = hashlib.sha1("\0".join([*same, str(times[same])]).encode()).hexdigest()[:12]
            yield found
