// Package extending holds docs/extending.md to its word: each change that it
// shows applies to the program as it is, touches no more files than it says, and
// builds and passes the tests of what it touches.
package extending
