package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/meshtrial/meshtrial/record/finding"
)

// network counts traffic on the interfaces of a pod other than loopback. Traffic
// between a sidecar and the role stays on loopback.
var network = Probe{
	Name: "network",
	Figures: []Figure{
		{Name: "network_bytes", Unit: finding.UnitBytesRequest, Doc: "Bytes that pass the network interfaces of %s for each answered request, in and out, headers of packets with them.", Words: "bytes on the network"},
		{Name: "network_packets", Unit: finding.UnitPackets, Doc: "Packets that pass them.", Words: "packets on the network"},
	},
	Read: func(process fs.FS) (map[string]uint64, error) {
		data, err := fs.ReadFile(process, "net/dev")
		if err != nil {
			return nil, err
		}
		return parseDev(string(data))
	},
}

// Columns of /proc/net/dev after the interface name (proc_pid_net(5)).
const (
	devReceivedBytes, devReceivedPackets = 0, 1
	devSentBytes, devSentPackets         = 8, 9
	devColumns                           = 16
)

// parseDev sums the interfaces of /proc/net/dev.
func parseDev(text string) (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, line := range strings.Split(text, "\n") {
		name, rest, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "lo" {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < devColumns {
			return nil, fmt.Errorf("net/dev: %d columns of %s, want %d", len(fields), strings.TrimSpace(name), devColumns)
		}
		for figure, columns := range map[string][2]int{"network_bytes": {devReceivedBytes, devSentBytes}, "network_packets": {devReceivedPackets, devSentPackets}} {
			for _, column := range columns {
				n, err := strconv.ParseUint(fields[column], 10, 64)
				if err != nil {
					return nil, fmt.Errorf("net/dev: %q of %s is no number", fields[column], strings.TrimSpace(name))
				}
				out[figure] += n
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("net/dev: no interface but the loopback")
	}
	return out, nil
}
