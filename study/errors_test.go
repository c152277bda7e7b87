package study

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// faults lists an error's codes and fields: "range settings.rate; unit window".
func faults(err error) string {
	all := Errors{}
	if !errors.As(err, &all) {
		return ""
	}
	out := make([]string, len(all))
	for i, e := range all {
		out[i] = strings.TrimSpace(string(e.Code) + " " + e.Pos.Field)
	}
	return strings.Join(out, "; ")
}

// hasCode reports whether an error has this code.
func hasCode(err error, code Code) bool {
	all := Errors{}
	return errors.As(err, &all) && slices.ContainsFunc(all, func(e *Error) bool { return e.Code == code })
}

// refused checks that a study is rejected with these codes and fields.
func refused(t *testing.T, text, want string, sets ...string) {
	t.Helper()
	if _, err := Parse([]byte(text), "x.yaml", sets); faults(err) != want {
		t.Errorf("%s--set %v: %v\n%s, want %s", text, sets, err, faults(err), want)
	}
}
