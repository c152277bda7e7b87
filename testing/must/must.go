// Package must ends tests on unexpected errors.
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

// Err returns the error of a call whose value is not needed.
func Err[T any](_ T, err error) error { return err }
