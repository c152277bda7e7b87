package study

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
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

// answered checks that a study is rejected as wrong usage, at a place and in certain words, or
// accepted without them.
func answered(t *testing.T, text string, sets []string, at, words string) {
	t.Helper()
	_, err := Parse([]byte(text), "x.yaml", sets)
	if words == "" && err != nil || words != "" && (errs.Code(err) != errs.CodeUsage ||
		at != "" && !strings.Contains(err.Error(), "x.yaml:"+at) || !strings.Contains(err.Error()+"\n"+errs.Hint(err), words)) {
		t.Errorf("%s--set %v: %v\n%s; want %q at %s", text, sets, err, errs.Hint(err), words, at)
	}
}
