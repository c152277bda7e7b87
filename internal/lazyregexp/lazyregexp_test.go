package lazyregexp_test

import (
	"slices"
	"testing"

	"github.com/meshtrial/meshtrial/internal/lazyregexp"
)

func TestRegexp(t *testing.T) {
	r := lazyregexp.New(`^([a-z]+)-([0-9]+)$`)
	if r.String() != `^([a-z]+)-([0-9]+)$` || !r.MatchString("ab-12") || r.MatchString("ab") {
		t.Errorf("%s matches wrongly", r)
	}
	if got := r.FindStringSubmatch("ab-12"); !slices.Equal(got, []string{"ab-12", "ab", "12"}) {
		t.Errorf("found %q", got)
	}
	wrong := lazyregexp.New(`(`) // not compiled before its use
	defer func() {
		if recover() == nil {
			t.Error("a wrong expression is used")
		}
	}()
	wrong.MatchString("")
}
