package gather

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/meshtrial/meshtrial/advise/scope"
)

// KeepListeners is the number of a proxy's resources that [Headless] needs by name
// (scope.Options.Keep).
const KeepListeners = 100_000

// Headless counts a proxy's listeners for single endpoints of headless Services. It also
// returns their share of the configuration, and a note that names the Service with the most, or
// "" if there are none.
//
// istiod makes a listener ADDRESS_PORT for each TCP port of a Service with an address, one
// 0.0.0.0_PORT for HTTP, and one ENDPOINT_PORT for each endpoint of a headless Service's port
// that is TCP or names no protocol (pilot/pkg/networking/core/listener.go). Therefore several
// addresses for one Service and port are endpoints.
func Headless(p scope.Proxy) (listeners int, share float64, most string) {
	type key struct {
		owner scope.Owner
		port  string
	}
	count, bytes := map[key]int{}, map[key]int64{}
	for _, r := range p.Largest {
		i := strings.LastIndexByte(r.Name, '_')
		if r.Type != scope.TypeListener || r.Owner.Kind != "Service" || i < 0 {
			continue
		}
		address, err := netip.ParseAddr(r.Name[:i])
		if err != nil || address.IsUnspecified() {
			continue
		}
		k := key{r.Owner, r.Name[i+1:]}
		count[k]++
		bytes[k] += r.DumpBytes
	}
	of, largest := map[scope.Owner]int{}, 0
	var total int64
	for k, n := range count {
		if n < 2 {
			continue
		}
		listeners, total = listeners+n, total+bytes[k]
		of[k.owner] += n
	}
	for owner, n := range of {
		if name := owner.String(); n > largest || n == largest && name < most {
			most, largest = name, n
		}
	}
	if most != "" {
		most = fmt.Sprintf("%s has most listeners for single endpoints, %d of %d in a proxy", most, largest, listeners)
	}
	return listeners, float64(total) / float64(max(1, p.DumpBytes)), most
}
