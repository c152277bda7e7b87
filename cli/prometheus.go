package cli

import (
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/observe/signals"
)

// prometheusFlags say which Prometheus server is queried.
type prometheusFlags struct {
	url      string
	headers  []string
	selector string // labels of its series
	named    string // the flag for these; "" for none
}

// register adds the flags. usage is that of the server's URL, selector the name of the flag for labels.
func (f *prometheusFlags) register(flags *pflag.FlagSet, usage, selector string) {
	flags.StringVar(&f.url, "prometheus-url", "", usage)
	flags.StringArrayVar(&f.headers, "prometheus-header", nil, "send this header to the Prometheus server, `\"Name: value\"`; may be repeated")
	if f.named = selector; selector != "" {
		flags.StringVar(&f.selector, selector, "", "`labels` that series in the Prometheus server must have, such as cluster=\"one\"")
	}
}

// open returns a client of the server; nil if none is named.
func (f *prometheusFlags) open() (*signals.Remote, error) {
	switch {
	case f.url != "":
	case len(f.headers) > 0:
		return nil, errs.Usage("--prometheus-header requires --prometheus-url")
	case f.selector != "":
		return nil, errs.Usage("--%s requires --prometheus-url", f.named)
	default:
		return nil, nil
	}
	if err := (signals.Options{Selector: f.selector}).Check(); err != nil {
		return nil, errs.WithHint(errs.Usage("--%s: %v", f.named, err), "write it as in PromQL, without braces: 'cluster=\"one\"'")
	}
	h := http.Header{}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, errs.Usage("--prometheus-header: want \"Name: value\"")
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return signals.NewRemote(f.url, h)
}
