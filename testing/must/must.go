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

// Err is the error of a call whose value is not wanted.
func Err[T any](_ T, err error) error { return err }
