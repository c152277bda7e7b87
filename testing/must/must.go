// Package must ends tests at errors that are not what they are about.
package must

// OK ends the test if there is an error.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
