package signals

import (
	"encoding/json"
	"testing"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/meshtrial/meshtrial/testing/must"
)

// Any response of a server yields samples or an error.
func FuzzPage(f *testing.F) {
	for _, page := range []string{page1, page2, "", "\n", "# EOF", "a 1\n# EOF\n", "#TYPE A histogram\n{}", `a{b="\"} 1`, "a 1 -5\n", "a{le=\"x\"} NaN 9999999999999999\n",
		"# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket 2\nh_sum +Inf\n", "{\"quoted.name\",a=\"b\"} 1\n", "a\x00 1\n", "# HELP a \\n\n# UNIT a\n"} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		var samples int
		err := walkPage(page, func(series []byte, metric func() labels.Labels, _ *int64, _ float64, _ bool) error {
			if metric().Get(metricName) == "" && len(series) == 0 {
				t.Error("a sample without a series")
			}
			samples++
			return nil
		})
		if err == nil && samples > 0 && len(page) < 3 {
			t.Errorf("%d samples of %q", samples, page)
		}
	})
}

// Pages that can be walked are recorded completely or not at all.
func FuzzAppendPage(f *testing.F) {
	f.Add([]byte(page1), []byte(page2))
	f.Add([]byte("a 1\n"), []byte("a{pod=\"x\"} 2\na 3\n"))
	f.Add([]byte("a 1 1795267200000\n"), []byte("a 1 1795267199000\na 2\n"))
	r, err := OpenRecorder(f.TempDir())
	must.OK(f, err)
	f.Cleanup(func() { r.Close() })
	second := 0.0
	f.Fuzz(func(t *testing.T, first, next []byte) {
		for _, page := range [][]byte{first, next} {
			second++
			if err := r.AppendPage(after(second), append(page, "\nalways 1\n"...), map[string]string{"pod": "p"}); err != nil {
				wantNone(t, r.Source(), `always{pod="p"} offset 1ms`, after(second-1000000))
				continue
			}
			want(t, r.Source(), `always{pod="p"}`, after(second), 1)
		}
	})
}

// Any response of a Prometheus yields samples or an error.
func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up"},"value":[1.5,"1"]}]}}`,
		`{"status":"success","data":{"resultType":"scalar","result":[1,"NaN"]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"],[2,"+Inf"]]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":"3","sum":"2","buckets":[[0,"-Inf","0.1","1"],[0,"3","+Inf","2"]]}]}]}}`,
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"histograms":[[1,{"count":"1","sum":"1"}]]}]}}`,
		`{"status":"error","errorType":"x","error":"y"}`, `null`, `{}`, `[`, `{"status":"success","data":null}`,
		`{"status":"success","data":{"resultType":"vector","result":[null]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"value":[]}]}}`,
	} {
		f.Add([]byte(answer))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		data, _, err := parseAnswer(answer)
		if err != nil {
			return
		}
		if data != nil && !json.Valid(data) {
			t.Errorf("data %q", data)
		}
		_, _, _ = parseInstant(data)
		_, _ = parseRange(data)
	})
}
