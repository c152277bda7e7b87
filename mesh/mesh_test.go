package mesh

import "testing"

func TestExpect(t *testing.T) {
	for _, tt := range []struct {
		got, want, slack float64
		ok               bool
		detail           string
	}{
		{10, 10, 0, true, "lines: 10, expected 10"},
		{9, 10, 0, false, "lines: 9, expected 10"},
		{11, 10, 0, false, "lines: 11, expected 10"},
		{8, 10, 2, true, "lines: 8, expected 10 (±2)"},
		{12, 10, 2, true, "lines: 12, expected 10 (±2)"},
		{13, 10, 2, false, "lines: 13, expected 10 (±2)"},
	} {
		c := Expect("name", tt.got, tt.want, tt.slack, "lines")
		if c.OK != tt.ok || c.Detail != tt.detail || c.Name != "name" {
			t.Errorf("%v: %+v", tt, c)
		}
	}
}
