// Package study is the file that asks one question of a mesh: its types, its
// strict parsing and the plan made from it. It is pure: no clock, no files,
// no randomness but the seed it is given.
//
//	bytes of a study file, --set overrides
//	  -> [Parse]    strict, every complaint with file, line and column
//	  -> [Study]    every default filled in; [Study.Marshal] writes resolved.yaml
//	  -> [NewPlan]  the cells, what each is compared with, what must be deployed
//	  -> [Plan.Block] the random order of one pass over the cells
//
// What can be varied stands in one table for each kind of study
// ([Kind.Factors]): the parser, the JSON Schema that editors use ([Schema]) and
// the documentation come from it. [ReadCell] reads the levels of a cell as values.
//
// A cell is recorded as it takes effect ([Kind.Effective]), not as it was asked
// for: without a sidecar the settings of a proxy mean nothing, so all cells
// that differ only in them are one cell, measured once and shared.
//
// Size: a study is one type with a section for each kind; one strict parser, one
// table of factors and one plan read all of it, so that a file's every complaint
// has its place and cells of all kinds mean the same.
package study
