package assess

import (
	"strings"
	"testing"
)

func TestSniff(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		want Content
	}{
		"dump":                {`{"configs":[{"@type":"x"`, ContentDump},
		"ztunnel":             {`{"services":{},"workloads":[`, ContentDump},
		"list":                {`{"apiVersion":"v1","items":[{"status":{}}`, ContentObjects},
		"list, its kind last": {"\n {\"items\":[", ContentObjects},
		"Kiali":               {`{"timestamp":1,"duration":60,"graphType":"workload"`, ContentKiali},
		"Prometheus":          {`{"status":"success","data":{"resultType":"vector"`, ContentAnswer},
		"metrics":             {"# HELP go_goroutines Number\n# TYPE go_goroutines gauge\ngo_goroutines 7\n", ContentMetrics},
		"metrics, bare":       {"pilot_xds 4\npilot_xds_pushes{type=\"cds\"} 1e+06\n", ContentMetrics},
		"archive":             {strings.Repeat("\x00", 257) + "ustar\x00", ContentArchive},
		"promtool":            {"[ {\n\"metric\": {\"__name__\"", ContentAnswer},
		"log":                 {"2026-11-30T10:00:00.000000Z\tinfo\tads\tXDS: Pushing", ContentLog},
		"log, its tail":       {"cut in the middle\n2026-11-30T10:00:00.000000Z\twarn\tdelta\tx\n", ContentLog},
		"log, JSON":           {`{"level":"info","time":"2026-11-30T10:00:00.000000Z","scope":"ads","msg":"x"}`, ContentLog},
		"log of an agent":     {"2026-11-30T10:00:00.000000Z\tinfo\txdsproxy\tconnected\n", ContentUnknown},
		"manifest":            {"# from kubectl\n---\napiVersion: v1\nitems:\n", ContentYAML},
		"clusters":            {`{"cluster_statuses":[`, ContentClusters},
		"clusters as text":    {"outbound|80||a.b::observability_name::x\noutbound|80||a.b::10.0.0.1:80::rq_total::5\n", ContentClustersText},
		"access log":          {"2026-11-24T03:14:15.9Z\tinfo\tEnvoy proxy is ready\n[2026-11-24T03:14:15.926Z] \"GET /a HTTP/2\" 503 UH 7 12 3 - \"-\" \"curl\" \"5f6b\" \"cart:80\" \"-\"\n", ContentAccessLog},
		"access log, JSON":    {`{"start_time":"2026-11-24T03:14:15.926Z","response_code":200,"duration":3}` + "\n", ContentAccessLog},
		"ztunnel's log":       {"2026-01-23T05:07:25.8Z\tinfo\taccess\tconnection complete\tdirection=\"inbound\"\n", ContentAccessLog},
		"profile":             {"\n\x04\x08\x01\x10\x02", ContentProfile},
		"other JSON":          {`{"name":"x","version":3}`, ContentUnknown},
		"endless value":       {`{"a":"` + strings.Repeat("x", 100), ContentUnknown},
		"list of JSON":        {`[{"configs":1}]`, ContentUnknown},
		"empty":               {"", ContentUnknown},
	} {
		if got := Sniff([]byte(c.head), false); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func FuzzSniff(f *testing.F) {
	for _, head := range []string{`{"configs":[`, `{"items":[{}]}`, "pilot_xds 4\n", `{"status":"success"}`, "{", `{"a":{`} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		if c := Sniff(head, false); c == ContentRecorded {
			t.Errorf("%q is called recorded", head)
		}
	})
}
