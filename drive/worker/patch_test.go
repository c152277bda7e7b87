package worker

import (
	"testing"

	"github.com/meshtrial/meshtrial/drive/worker/control"
)

// Any patch results in a valid configuration or an error.
func FuzzPatch(f *testing.F) {
	for _, seed := range []string{`{"version": 1}`, `{"version": 1, "drain": {"delay_ms": 5}}`, `{"version": 1, "drain": null}`, `{"version": {}}`,
		`{"version": 1, "service_time": {"mean_us": null}}`, `null`, `[]`, `{"version": 1, "calls": [{"name": "a", "url": "http://b"}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		config := control.Config{Version: 1, ServiceTime: control.ServiceTime{Distribution: control.Fixed, MeanUS: 5}, Drain: control.Drain{DelayMS: 1}}
		out, err := merged(config, patch)
		if err == nil && out.Validate() != nil {
			t.Errorf("%s gave %+v: %v", patch, out, out.Validate())
		}
		if config.ServiceTime.MeanUS != 5 || config.Drain.DelayMS != 1 {
			t.Error("the configuration in force was changed")
		}
	})
}
