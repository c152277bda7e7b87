// Package reports holds the reports of all kinds of study to what they were: as
// text, as documents and in a browser. It has tests alone; the table of kinds is in
// package kinds.
package reports
