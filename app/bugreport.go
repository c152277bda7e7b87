package app

import (
	"regexp"
	"slices"
	"strings"
)

// reportFile is a file of an archive that `istioctl bug-report` wrote.
type reportFile struct {
	pod  string // NAMESPACE/NAME; "" for a file of the cluster
	page string // such as "clusters", "debug/syncz" or "k8s-resources"
}

// Pages of a bug report that matter by their names.
const (
	pageServerInfo = "server_info"
	pageProxyLog   = "istio-proxy.log"
	pageSync       = "debug/syncz"
	pageCustom     = "crs" // of all kinds that custom resource definitions define
)

// ignoredPages are those of a bug report that an assessment does not use: of thousands of proxies it would
// list them as unrelated.
var ignoredPages = map[string][]string{
	"proxies": {"certs", "cores/", "listeners", "memory", "netstat", "runtime"},
	"istio":   {"debug/"},
	"cluster": {"cluster-context", "describe-pods", "events", "kubectl-version", "nodes", "secrets"},
	"analyze": {""}, "cni": {""}, "operator": {""},
}

// reportPath matches a path in a bug report: bug-report/proxies/NAMESPACE/POD/PAGE,
// bug-report/istio/NAMESPACE/POD/PAGE and bug-report/cluster/PAGE; with --dir it has no first folder.
// See istio.io/istio, tools/bug-report/pkg/archive.
var reportPath = regexp.MustCompile(`^(?:\./)?(?:[^/]*bug-report[^/]*/)*(?:(proxies|istio)/([^/]+)/([^/]+)/(.+)|(cluster|analyze|cni|operator)/(.+)|(versions|bug-report\.log))$`)

// inReport says what a path in a bug report names. ok is false for other paths, and ignored tells of pages that an
// assessment does not use.
func inReport(path string) (f reportFile, ignored, ok bool) {
	m := reportPath.FindStringSubmatch(path)
	if m == nil {
		return f, false, false
	}
	folder := m[1]
	if f = (reportFile{m[2] + "/" + m[3], m[4]}); folder == "" {
		folder, f = m[5], reportFile{"", m[6]}
	}
	ignored = folder == "" || f.page != pageSync && slices.ContainsFunc(ignoredPages[folder], func(page string) bool {
		return f.page == page || (page == "" || strings.HasSuffix(page, "/")) && strings.HasPrefix(f.page, page)
	})
	return f, ignored, true
}

// podIn finds the pod that a path names: NAMESPACE/POD within it, or a file whose name has the pod's.
// It is "" for none, and for several.
func podIn(path string, pods map[string]bool) string {
	parts := strings.Split(path, "/")
	for i := range len(parts) - 1 {
		if pod := parts[i] + "/" + parts[i+1]; pods[pod] {
			return pod
		}
	}
	base, found, length := parts[len(parts)-1], "", 0
	for pod := range pods {
		_, name, _ := strings.Cut(pod, "/")
		if len(name) < length || !hasWord(base, name) {
			continue
		}
		if len(name) == length {
			found = "" // of two namespaces
			continue
		}
		found, length = pod, len(name)
	}
	return found
}

// hasWord reports whether a text has a word that does not go on before or after it.
func hasWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 || word == "" {
			return false
		}
		begin, end := from+i, from+i+len(word)
		if (begin == 0 || !isNameByte(text[begin-1])) && (end == len(text) || !isNameByte(text[end])) {
			return true
		}
		from = begin + 1
	}
}

func isNameByte(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
