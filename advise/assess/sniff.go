package assess

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// Content is what a file holds.
type Content string

// Contents of files.
const (
	ContentUnknown  Content = ""
	ContentMetrics  Content = "metrics page"
	ContentDump     Content = "config dump"
	ContentRecorded Content = "recorded configuration"
	ContentObjects  Content = "Kubernetes objects"
	ContentClusters Content = "counters of a proxy"
	ContentKiali    Content = "Kiali graph"
	ContentAnswer   Content = "answer of Prometheus"
	ContentLog      Content = "log of istiod"
	ContentArchive  Content = "archive"
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

// Sniff says what a file holds by its beginning, whatever it is called. recorded says that it
// begins as what meshtrial records.
func Sniff(head []byte, recorded bool) Content {
	switch trimmed := bytes.TrimLeft(head, " \t\r\n"); {
	case recorded:
		return ContentRecorded
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return ContentArchive
	case isLog(trimmed):
		return ContentLog
	case len(trimmed) > 0 && trimmed[0] == '{':
		return sniffJSON(trimmed)
	case queried.Match(trimmed):
		return ContentAnswer
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
