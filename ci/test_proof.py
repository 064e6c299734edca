# SPDX-License-Identifier: Apache-2.0
"""Tests of what mutants and planted faults are measured with."""

import math
import os
import unittest
from unittest import mock

import mutants
import mutate
import detection
import tree

FUNCTION = """
/* a < b is no code */
static int64_t sum(const int64_t *rows, int64_t count) {
    int64_t total = 0;
    for (int64_t i = 0; i < count; i++) {
        total += rows[i] * 2;
    }
    if (count > 0 &&
        total != 1) {
        note(&total, count);
    }
    return total;
}
"""


def changes(operator):
    found = mutate.mutants_of("f.c", FUNCTION, ["own"])
    return {(mutant["before"], mutant["after"]) for mutant in found if mutant["operator"] == operator}


class Mutants(unittest.TestCase):
    def test_relations_are_moved_and_turned(self):
        loop = "for (int64_t i = 0; i < count; i++) {"
        self.assertIn((loop, loop.replace("<", "<=")), changes("relation"))
        self.assertIn((loop, loop.replace("<", ">=")), changes("relation"))

    def test_comments_and_declarations_are_left_alone(self):
        self.assertFalse([before for before, _ in changes("relation") if "no code" in before])
        self.assertFalse([after for _, after in changes("arithmetic") if "rows, int64_t" in after])

    def test_a_condition_of_several_lines_is_turned_as_one(self):
        self.assertIn(("if (count > 0 && total != 1) {", "if (!(count > 0 && total != 1)) {"), changes("condition"))

    def test_statements_are_dropped_and_declarations_not(self):
        self.assertIn(("note(&total, count);", ";"), changes("dropped"))
        self.assertFalse([before for before, _ in changes("dropped") if before.startswith("int64_t total")])

    def test_indices_and_results_are_off_by_one(self):
        self.assertIn(("total += rows[i] * 2;", "total += rows[(i) + 1] * 2;"), changes("off by one"))
        self.assertIn(("return total;", "return (total) + 1;"), changes("result"))

    def test_ids_survive_edits_elsewhere(self):
        ids = [mutant["id"] for mutant in mutate.mutants_of("f.c", FUNCTION, ["own"])]
        moved = [mutant["id"] for mutant in mutate.mutants_of("f.c", "int other(void);\n" + FUNCTION, ["own"])]
        self.assertEqual(ids, moved)
        self.assertEqual(len(ids), len(set(ids)))


class Choices(unittest.TestCase):
    def test_names_count_once_and_unknown_ones_are_refused(self):
        self.assertEqual(mutants.chosen_files("route.c, runs.c,route.c"), ["route.c", "runs.c"])
        self.assertEqual(mutants.chosen_stages("props,replay"), ["replay", "props"])
        self.assertEqual(mutants.chosen_rules(None), ["own"])
        bug = detection.all_patches()[0].name
        self.assertEqual([patch.name for patch in detection.all_patches(f"{bug},{bug}")], [bug])
        for choose, choice, told in ((mutants.chosen_files, "route.c,", "FILES=route.c,: there is no engine/"),
                                     (mutants.chosen_rules, "x", "RULES=x: the rules are own"),
                                     (mutants.chosen_stages, ",", "STAGES=,: the stages are replay"),
                                     (detection.all_patches, "x", "BUGS=x: there is no planted/engine/x.patch"),
                                     (tree.chosen_laws, "x", "LAW=x: 'x' is no law")):
            with self.assertRaisesRegex(tree.WrongUse, told):
                choose(choice)

    def test_numbers(self):
        with mock.patch.dict(os.environ, {"SEED": "0", "SEEDS": "0", "MUTANTS": ""}):
            self.assertEqual(mutants.whole_number("SEED", 1, least=0), 0)
            self.assertIsNone(mutants.whole_number("MUTANTS", None))
            with self.assertRaisesRegex(tree.WrongUse, "SEEDS=0 is not a whole number from 1 to 999999999"):
                mutants.whole_number("SEEDS", 10)
        self.assertEqual((tree.number("N", "999999999"), tree.number("N", "0.5", float)), (999999999, 0.5))
        for text, kind in (("-1", int), ("1.5", int), ("x", int), ("1000000000", int), ("0", float), ("nan", float), ("inf", float)):
            with self.assertRaisesRegex(tree.WrongUse, f"N={text} is not a "):
                tree.number("N", text, kind)


class Times(unittest.TestCase):
    def test_a12_ranks_what_never_ended_last(self):
        self.assertEqual(detection.a12([1, 2], [math.inf, math.inf]), 1.0)
        self.assertEqual(detection.a12([math.inf], [3]), 0.0)
        self.assertEqual(detection.a12([math.inf], [math.inf]), 0.5)
        self.assertEqual(detection.a12([1, 3], [2, 2]), 0.5)


if __name__ == "__main__":
    unittest.main()
