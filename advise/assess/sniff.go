package assess

import (
	"bytes"
	"encoding/json"
	"regexp"

	"github.com/meshtrial/meshtrial/internal/accesslog"
)

// Content is what a file holds.
type Content string

// Contents of files.
const (
	ContentUnknown      Content = ""
	ContentMetrics      Content = "metrics page"
	ContentDump         Content = "config dump"
	ContentRecorded     Content = "recorded configuration"
	ContentObjects      Content = "Kubernetes objects"
	ContentKiali        Content = "Kiali graph"
	ContentAnswer       Content = "answer of Prometheus"
	ContentLog          Content = "log of istiod"
	ContentArchive      Content = "archive"
	ContentYAML         Content = "Kubernetes objects in YAML"
	ContentClusters     Content = "counters of a proxy"
	ContentClustersText Content = "counters of a proxy as text"
	ContentAccessLog    Content = "access log"
	ContentProfile      Content = "profile"
)

// Head is how many bytes of a file [Sniff] takes.
const Head = 64 << 10

// contents are those of JSON documents, by a member that others do not have.
var contents = map[string]Content{
	"configs": ContentDump, "stagedServices": ContentDump, "workloads": ContentDump,
	"items": ContentObjects, "apiVersion": ContentObjects,
	"cluster_statuses": ContentClusters,
	"elements":         ContentKiali, "graphType": ContentKiali,
	"status": ContentAnswer,
}

// series matches a line of a metrics page.
var series = regexp.MustCompile(`(?m)^(# (HELP|TYPE) [a-zA-Z_:][a-zA-Z0-9_:]* |[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^\n]*\})? [-+0-9.eEInfNa]+( [0-9]+)?$)`)

// queried matches what promtool query prints as JSON: the list within an answer of Prometheus.
var queried = regexp.MustCompile(`^\[\s*\{\s*"metric"\s*:`)

// manifest matches the beginning of objects in YAML, and endpoint a line of an Envoy's /clusters as text.
var (
	manifest = regexp.MustCompile(`^(\s*#[^\n]*\n|---[^\n]*\n|\s*\n)*(apiVersion|items|kind):`)
	endpoint = regexp.MustCompile(`(?m)^[^\s:]\S*::([^:\s]+_priority::max_connections|observability_name|added_via_api|(\d+\.|\[)[^\s]+::[a-z_]+)::`)
)

// isProfile reports whether a file may be one of pprof, unpacked: it begins with the type of its samples.
func isProfile(head []byte) bool {
	return len(head) > 3 && head[0] == 1<<3|2 && head[1] >= 2 && head[1] <= 12 && head[2] == 1<<3
}

// isAccessLog reports whether one of the first lines is one of an access log.
func isAccessLog(head []byte) bool {
	for line := range bytes.Lines(head) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return false // the head ends here
		}
		_, line = accesslog.CutPod(line)
		if _, ok := accesslog.Parse(line); ok {
			return true
		}
		if _, ok := accesslog.ParseZtunnel(line); ok {
			return true
		}
	}
	return false
}

// Sniff says what a file holds by its beginning, whatever it is called. recorded says that it
// begins as what meshtrial records.
func Sniff(head []byte, recorded bool) Content {
	switch trimmed := bytes.TrimLeft(head, " \t\r\n"); {
	case recorded:
		return ContentRecorded
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return ContentArchive
	case isProfile(head):
		return ContentProfile
	case isAccessLog(head):
		return ContentAccessLog
	case isLog(trimmed):
		return ContentLog
	case len(trimmed) > 0 && trimmed[0] == '{':
		return sniffJSON(trimmed)
	case queried.Match(trimmed):
		return ContentAnswer
	case manifest.Match(head):
		return ContentYAML
	case endpoint.Match(head):
		return ContentClustersText
	case series.Match(head):
		return ContentMetrics
	}
	return ContentUnknown
}

// sniffJSON looks at the members of a document, as far as its beginning has them.
func sniffJSON(head []byte) Content {
	d := json.NewDecoder(bytes.NewReader(head))
	if _, err := d.Token(); err != nil {
		return ContentUnknown
	}
	for {
		key, err := d.Token()
		name, isName := key.(string)
		if err != nil || !isName {
			return ContentUnknown
		}
		// An object's status stands after its apiVersion.
		if c, known := contents[name]; known {
			return c
		}
		var value json.RawMessage
		if d.Decode(&value) != nil { // it goes on behind the head
			return ContentUnknown
		}
	}
}
