package verdict

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/errs"
	"github.com/meshtrial/meshtrial/record"
)

var two = []Limit{{Name: "lag", Default: 0.25}, {Name: "edges", Default: 0.01}}

func TestParseLimits(t *testing.T) {
	got, err := ParseLimits([]string{"lag=0.5", "lag=0.75", "edges=0"}, two)
	if err != nil || got.Of(two[0]) != 0.75 || got.Of(two[1]) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"lag": "NAME=VALUE", "late=1": "no such limit", "lag=": "no number", "lag=-1": "no number", "lag=NaN": "no number", "lag=Inf": "no number", "lag=1e400": "no number", "=1": "no such limit",
	} {
		_, err := ParseLimits([]string{text}, two)
		if errs.Code(err) != errs.CodeUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
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
		{"other rules", record.Rules{Version: Version + 1, Limits: today.Limits}, "by rules of version 2, today's are version 1"},
		{"a limit that is gone", record.Rules{Version: Version, Limits: map[string]float64{"moon": 1}}, "by a limit moon, which no rule has any more"},
		{"another limit", Limits{"lag": 0.5}.Rules(two), "with lag 0.5 in place of 0.25"},
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
