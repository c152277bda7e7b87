// Package reporttest has findings for tests of reports: as analysis makes them
// of runs that are made up, or as it would.
package reporttest
