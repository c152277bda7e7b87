// Package reporttest has findings for tests of reports, as analysis makes them
// of runs that are made up, or as it would; and reports of one kind of study
// for tests of its sections.
package reporttest
