package verdict

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/record"
)

var two = []Limit{{Name: "lag", Default: 0.25, Unit: "ratio", Doc: "how late"}, {Name: "edges", Default: 0.01}}

func TestParseLimits(t *testing.T) {
	got, err := ParseLimits([]string{"lag=0.5", "lag=0.75", "edges=0"}, two)
	if err != nil || got.Of(two[0]) != 0.75 || got.Of(two[1]) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{"lag": "NAME=VALUE", "late=1": "unknown limit", "=1": "unknown limit", "lag=5s": "not a ratio"} {
		for _, all := range [][]Limit{two, nil} {
			_, err := ParseLimits([]string{text}, all)
			if errs.Code(err) != errs.CodeUsage || all != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	_, err = ParseLimits([]string{"late=1"}, two)
	if hint := errs.Hint(err); hint != "the limits are\nlag=25%: how late\nedges=0.01: " {
		t.Errorf("hint %q", hint)
	}
}

// A value is a number in the limit's unit, or has its own unit.
func TestValuesOfLimits(t *testing.T) {
	for _, c := range []struct {
		unit, text string
		want       float64 // -1: rejected
	}{
		{"ratio", "0.05", 0.05}, {"ratio", "5%", 0.05}, {"ratio", "0.1%", 0.001}, {"ratio", "5s", -1}, {"ratio", "%", -1}, {"ratio", "-5%", -1}, {"ratio", "NaN%", -1},
		{"s", "2", 2}, {"s", "2s", 2}, {"s", "500ms", 0.5}, {"s", "1m30s", 90}, {"s", "5%", -1}, {"s", "-1s", -1},
		{"ms", "2s", 2000}, {"ms", "10", 10}, {"us", "1.5ms", 1500}, {"us", "10us", 10}, {"us", "10µs", 10},
		{"", "2", 2}, {"", "2s", -1}, {"", "200%", -1},
		{"ratio", "", -1}, {"ratio", "-1", -1}, {"ratio", "NaN", -1}, {"ratio", "Inf", -1}, {"ratio", "1e400", -1}, {"s", "1e19", -1},
	} {
		l := Limit{Name: "x", Unit: c.unit, Default: 1}
		got, err := ParseLimits([]string{"x=" + c.text}, []Limit{l})
		switch {
		case c.want < 0:
			if errs.Code(err) != errs.CodeUsage || !strings.Contains(errs.Hint(err), l.Text(1)) {
				t.Errorf("%q of a limit in %q: %v, %v, hint %q", c.text, c.unit, got, err, errs.Hint(err))
			}
		case err != nil || got["x"] != c.want:
			t.Errorf("%q of a limit in %q: %v, %v, want %v", c.text, c.unit, got, err, c.want)
		}
	}
}

func TestOutdated(t *testing.T) {
	today := Limits(nil).Rules(two)
	for _, c := range []struct {
		name string
		by   record.Rules
		want string
	}{
		{"today's", today, ""},
		{"other rules", record.Rules{Version: Version + 1, Limits: today.Limits}, fmt.Sprintf("by rules of version %d, the current ones are version %d", Version+1, Version)},
		{"a limit that is gone", record.Rules{Version: Version, Limits: map[string]float64{"moon": 1}}, "by limit moon, which no longer exists"},
		{"a limit that is new", Limits{"lag": 0.5}.Rules(two[:1]), "with lag 0.5 instead of 0.25, without limit edges, which is now 0.01"},
		{"another limit", Limits{"lag": 0.5}.Rules(two), "with lag 0.5 instead of 0.25"},
	} {
		if got := Outdated(c.by, two); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestSheet(t *testing.T) {
	var s Sheet
	if v := s.Validity(); !v.Valid {
		t.Error("nothing was checked, and it is not valid")
	}
	s.Check("a", true, "%d", 1)
	s.WarnSteal(&record.Pressure{StealRatio: 0.02}, nil)
	s.WarnSteal(nil, nil)
	if v := s.Validity(); !v.Valid || len(v.Warnings) > 0 {
		t.Errorf("%+v", v)
	}
	s.WarnSteal(&record.Pressure{StealRatio: 0.021}, nil)
	s.Add(record.Check{Name: "b"})
	if v := s.Validity(); v.Valid || len(v.Warnings) != 1 || v.Checks[0].Detail != "1" {
		t.Errorf("%+v", v)
	}
}
