// Package deptest holds the tests that keep the structure of the program what
// ARCHITECTURE.md says: imports between folders point down, pure packages stay
// pure, every package says what it is for, and the program leaves out what is large.
package deptest
