package cli

import (
	"net/http"
	"strings"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// openPrometheus returns a client of a Prometheus server.
func openPrometheus(address string, headers []string) (*signals.Remote, error) {
	h := http.Header{}
	for _, text := range headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, errs.Usage("--prometheus-header: want \"Name: value\"")
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return signals.NewRemote(address, h)
}
