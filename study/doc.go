// Package study defines the file that asks one question of a mesh: its types, its strict parser and
// the plan made from it. The package is pure: no clock, no files, and no randomness beyond the
// given seed.
//
//	bytes of a study file, --set overrides
//	  -> [Parse]    strict, every complaint with file, line and column
//	  -> [Study]    every default filled in; [Study.Marshal] writes resolved.yaml
//	  -> [NewPlan]  the cells, what each is compared with, what must be deployed
//	  -> [Plan.Block] the random order of one pass over the cells
//
// Each kind of study has one table of what can vary ([Kind.Factors]). The parser, the JSON Schema
// for editors ([Schema]) and the documentation are derived from it. [ReadCell] reads the levels of
// a cell as values.
//
// A cell is recorded as it takes effect ([Kind.Effective]), not as requested: proxy settings mean
// nothing without a sidecar, so cells that differ only in them are one cell, measured once and
// shared.
//
// Size: a study is one type with a section per kind. One strict parser, one table of factors and
// one plan read all of it, so that every error has a position and cells of all kinds mean the same.
package study
