package procfs

import "testing"

func TestParseSchedstat(t *testing.T) {
	for _, c := range []struct {
		text string
		want Schedstat
		ok   bool
	}{
		{"211764 510217 7\n", Schedstat{211764, 510217, 7}, true},
		{"0 0 0", Schedstat{}, true},
		{"1 2", Schedstat{}, false},
		{"1 2 -3\n", Schedstat{}, false},
		{"", Schedstat{}, false},
	} {
		got, err := ParseSchedstat([]byte(c.text))
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
}

func TestParseSwitches(t *testing.T) {
	for _, c := range []struct {
		text string
		want Switches
		ok   bool
	}{
		{"Name:\tenvoy\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n", Switches{17, 4}, true},
		{"Name:\tvoluntary_ctxt_switches: 5\nvoluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n", Switches{17, 4}, true},
		{"voluntary_ctxt_switches:\t17\n", Switches{}, false},
		{"voluntary_ctxt_switches:\tmany\nnonvoluntary_ctxt_switches:\t4\n", Switches{}, false},
		{"", Switches{}, false},
	} {
		got, err := ParseSwitches([]byte(c.text))
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
}

func FuzzThreadFiles(f *testing.F) {
	f.Add("211764 510217 7\n")
	f.Add("voluntary_ctxt_switches:\t17\nnonvoluntary_ctxt_switches:\t4\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = ParseSchedstat([]byte(text))
		_, _ = ParseSwitches([]byte(text))
	})
}
