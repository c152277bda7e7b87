// Package reporttest has findings for tests of reports, as analysis makes or
// would make them from synthetic runs, and renders reports of one kind of study
// for tests of its sections.
package reporttest
