package generate

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/meshtrial/meshtrial/advise/scope"
	"github.com/meshtrial/meshtrial/internal/accesslog"
	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/internal/lines"
)

// maxLine is the longest access log line that is read whole, in bytes: more than Envoy's limit for
// the headers of a request (96 KiB at most), with each character escaped to six.
const maxLine = 1 << 20

// LogFile describes the content of an access log.
type LogFile struct {
	Lines    int64
	Requests int64 // lines that name a cluster
	Failed   int64 // requests among them that failed
	Unended  int64 // lines among them that do not say how the request ended
	Unknown  int64 // hosts that the mesh does not have: clients may have made them up
	TooLong  int64 // lines that were skipped
}

// ErrNoRequests reports that a log has no request: it belongs to a workload that neither calls nor
// is called, or it is not an access log.
var ErrNoRequests = errors.New("no line names an upstream cluster, as those of a sidecar's access log do")

// fewest is the minimum number of failed requests for a log without others to count as filtered.
const fewest = 10

// ReadAccessLog reads an Envoy's access log, line by line, in any format that has the upstream
// cluster. All names of clusters in a line count, wherever they appear: an extra one costs some
// bytes, a missing one a request. Since clients choose the content of paths, hosts count only if
// the mesh knows them. A workload whose log names others counts as unknown, unless all hosts of
// the mesh are known. If lines have the prefix of `kubectl logs --prefix`, pod returns the
// workload of each; other lines belong to w.
//
// It is an error if no line names a cluster ([ErrNoRequests]), if a filter removed successful
// requests, or if the reader fails.
func (o *Observations) ReadAccessLog(r io.Reader, w Workload, pod func(name string) Workload,
	known func(host, caller string) bool) (found LogFile, err error) {
	for line, err := range lines.Of(r, maxLine) {
		if err != nil {
			return found, fmt.Errorf("after line %d: %w", found.Lines, err)
		}
		if found.Lines++; line.Long {
			found.TooLong++
			continue
		}
		of := w
		name, text := accesslog.CutPod(line.Text)
		if name != "" {
			of = pod(name)
		}
		o.line(text, of, known, &found)
	}
	if found.Requests == 0 {
		return found, errs.WithHint(errs.WithCode(ErrNoRequests, errs.CodeUsage), "switch it on with meshConfig.accessLogFile: "+
			"/dev/stdout, or a Telemetry resource, and take it with: kubectl logs --prefix -n NAMESPACE -l app=NAME -c istio-proxy --tail=-1")
	}
	if n := found.Failed; n >= fewest && n+found.Unended == found.Requests {
		return found, errs.WithHint(errs.Usage("none of its %d requests is known to have succeeded, and %d failed: a log without "+
			"those that succeed does not say whom a workload calls", found.Requests, n),
			"take the filter off (a Telemetry resource, accessLogging.filter) for as long as is to be watched, or give another source")
	}
	return found, nil
}

// line adds the information in one line about a workload.
func (o *Observations) line(line []byte, w Workload, known func(host, caller string) bool, found *LogFile) {
	clusters := clustersIn(line)
	if len(clusters) == 0 { // other output of a proxy, and its own responses
		v, _ := accesslog.Read(line)
		if name := v[accesslog.Cluster]; !scope.OwnCluster(name) && strings.Contains(name, ".") {
			o.watch(w, AccessLog, Span{}).strange = name
		}
		return
	}
	found.Requests++
	v, _ := accesslog.Read(line)
	ended := endOf(v[accesslog.Status], v[accesslog.Flags])
	switch ended {
	case endFailed:
		found.Failed++
	case endUnknown:
		found.Unended++
	}
	var at Span
	if ns, ok := accesslog.Time(v[accesslog.Start]); ok {
		if t := time.Unix(0, ns); t.Year() >= firstYear {
			at = At(t, t)
		}
	}
	for _, cluster := range clusters {
		direction, _, _, host, _ := scope.SplitCluster(cluster)
		e := Edge{From: w, Host: host, Count: 1, Sources: AccessLog, Span: at}
		switch {
		case passthrough[cluster]:
			host, _, _ := strings.Cut(cmp.Or(v[accesslog.Authority], v[accesslog.ServerName]), ":")
			o.left(w, host, AccessLog, at)
		case direction != "outbound":
			o.Served(w, AccessLog, at)
		case !known(host, w.Namespace) && (len(clusters) > 1 || ended == endFailed):
			// A client may have made it up. Alone in a request that did not fail, it is a host that
			// was called: the inventory may not have it, for example in a mesh of several clusters.
			o.watch(w, AccessLog, at).odd = true
			found.Unknown++
		case len(clusters) == 1:
			o.Call(e)
		default: // a client may have made it up: other lines must show that the workload's own calls are logged
			o.call(e)
		}
	}
}

// firstYear is the earliest year in logs: before Envoy existed the field is not a time.
const firstYear = 2010

// ending says how a request ended.
type ending int

const (
	endUnknown ending = iota
	endSucceeded
	endFailed
)

// endOf interprets a response code and response flags. For a connection without requests the code
// is 0, and its flags say whether it failed. A caller that went away before the answer (DC, DR)
// proves nothing. See envoyproxy.io/docs, Access logging, RESPONSE_FLAGS.
func endOf(code, flags string) ending {
	switch n, ok := accesslog.StatusCode(code); {
	case !ok:
		return endUnknown
	case n >= 400:
		return endFailed
	case n > 0 || flags == "-":
		return endSucceeded
	}
	switch flags {
	case "", "DC", "DR", "DownstreamConnectionTermination", "DownstreamRemoteReset":
		return endUnknown
	}
	return endFailed
}

// beginnings are the prefixes of relevant cluster names. The other spelling of a service's name
// (outbound_.80_._.HOST) is the server name with which sidecars call each other, and appears in the
// log of the called workload.
var beginnings = [][]byte{[]byte("outbound|"), []byte("inbound|"), []byte("inbound-vip|"), []byte("InboundPassthroughCluster"),
	[]byte("PassthroughCluster"), []byte("BlackHoleCluster")}

// longestCluster is the maximum length of a cluster's name; searches for its end stop there.
const longestCluster = 1024

// clustersIn returns the distinct names of clusters in a text.
func clustersIn(line []byte) (found []string) {
	had := map[string]bool{}
	for _, beginning := range beginnings {
		for from := 0; ; {
			i := bytes.Index(line[from:], beginning)
			if i < 0 {
				break
			}
			begin := from + i
			from = begin + len(beginning)
			end := min(begin+longestCluster+1, len(line))
			if n := bytes.IndexAny(line[begin:end], "\" \t,;{}\\'"); n >= 0 {
				end = begin + n
			}
			name := string(line[begin:end])
			if i > 0 && bytes.HasSuffix(line[:begin], []byte("Inbound")) || len(name) > longestCluster || had[name] {
				continue
			}
			direction, _, _, host, ok := scope.SplitCluster(name)
			if ok && (isHost(host) || host == "" && direction != "outbound") || passthrough[name] || strings.HasPrefix(name, "InboundPassthroughCluster") {
				found, had[name] = append(found, name), true
			}
		}
	}
	return found
}

// isHost reports whether a word may be the host of a Service or ServiceEntry.
func isHost(word string) bool {
	return strings.Trim(word, ".") != "" && len(word) <= 253 && !strings.ContainsFunc(word, func(c rune) bool {
		return c != '.' && c != '-' && c != '_' && c != '*' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
