// Package extending tests the claims of docs/extending.md: each change that it
// shows applies to the current program, touches no more files than it says,
// builds, and passes the tests of what it touches.
package extending
