// Package reports tests that the reports of all kinds of study do not change unnoticed: as text, as
// documents and in a browser. It contains only tests; the table of kinds is in package kinds.
package reports
