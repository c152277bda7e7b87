// Package deptest holds the tests that keep the structure of the program
// what ARCHITECTURE.md says: which package may import which, that pure
// packages stay pure, and that every package says what it is for.
package deptest
