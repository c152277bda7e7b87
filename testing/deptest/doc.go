// Package deptest holds the tests that keep the structure of the program
// what ARCHITECTURE.md says: which package may import which, that pure
// packages stay pure, that every package says what it is for, and that
// functions, files and packages are of a size to be read.
package deptest
