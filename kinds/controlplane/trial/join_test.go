package trial

import (
	"fmt"
	"testing"

	"github.com/meshtrial/meshtrial/observe"
	"github.com/meshtrial/meshtrial/testing/must"
)

// scraped returns a page of istiod's metrics.
func scraped(t *testing.T, config, eds int) observe.Scrape {
	t.Helper()
	text := fmt.Sprintf("# TYPE pilot_inbound_updates counter\npilot_inbound_updates{type=\"config\"} %d\npilot_inbound_updates{type=\"eds\"} %d\n"+
		"# TYPE pilot_xds_pushes counter\npilot_xds_pushes{type=\"cds\"} %d\n", config, eds, 1000*config)
	page, err := observe.ParsePrometheus([]byte(text))
	must.OK(t, err)
	return observe.Scrape{Replicas: map[string][]observe.Metric{"istiod": page}}
}

func TestInbound(t *testing.T) {
	for _, tt := range []struct {
		name        string
		config, eds int
		want        float64
		err         bool
	}{
		{"still", 5, 7, 0, false},
		{"changes of both kinds", 8, 8, 4, false},
		{"another istiod", 1, 0, 0, true},
	} {
		got, err := inbound(scraped(t, 5, 7), scraped(t, tt.config, tt.eds))
		if got != tt.want || (err != nil) != tt.err {
			t.Errorf("%s: %v, %v", tt.name, got, err)
		}
	}
}
