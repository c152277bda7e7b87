package verdict

import (
	"strings"
	"testing"

	"github.com/meshtrial/meshtrial/record"
)

func TestCheckUnattributed(t *testing.T) {
	for _, c := range []struct {
		name        string
		share, busy float64
		limit       float64
		ok          bool
	}{
		{"nobody", 0.01, 0.9, 0.25, true},
		{"less than nothing: accounts are read one after another", -0.02, 0.9, 0.25, true},
		{"a little", 0.25, 1, 0.25, true},
		{"a hog", 0.4, 1, 0.25, false},
		{"a hog that the limit allows: it has all there is", 1.003, 1, 1, true},
		{"tenants of a large node", 0.4, 0.5, 0.25, true},
	} {
		var s Sheet
		s.CheckUnattributed(record.Trial{Pressure: &record.Pressure{BusyRatio: c.busy},
			Others: &record.Others{UnattributedRatio: c.share, Who: []record.ProcessUse{{Command: "cc1"}}}}, Limits{Unattributed.Name: c.limit})
		v := s.Validity()
		if v.Valid != c.ok || len(v.Checks) != 1 || !strings.Contains(v.Checks[0].Detail, "(cc1)") {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
	var s Sheet
	s.CheckUnattributed(record.Trial{}, nil)
	if v := s.Validity(); len(v.Checks) > 0 {
		t.Errorf("nobody knows what others used, and it was judged: %+v", v)
	}
	if l, err := ParseLimits([]string{"unattributed=60%"}, []Limit{Unattributed}); err != nil || l.Of(Unattributed) != 0.6 {
		t.Error(l, err)
	}
}
