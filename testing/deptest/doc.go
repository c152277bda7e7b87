// Package deptest tests that the structure of the program matches ARCHITECTURE.md:
// imports between folders point down, pure packages stay pure, every package says
// what it is for, and the program excludes large dependencies.
package deptest
