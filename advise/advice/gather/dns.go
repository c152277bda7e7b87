package gather

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/meshtrial/meshtrial/drive/xds/wire"
	"github.com/meshtrial/meshtrial/internal/confile"
)

// dnsTypes are how a config dump spells the types of clusters that a proxy resolves
// by DNS.
var dnsTypes = [][]byte{[]byte(`"STRICT_DNS"`), []byte(`"LOGICAL_DNS"`)}

// DNSClusters counts the clusters that a proxy resolves itself, in the config dump of an
// Envoy or in the configuration of a simulated sidecar (package confile). It holds at most one
// resource in memory.
func DNSClusters(r io.Reader) (int, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	if start, _ := in.Peek(confile.Probe()); !confile.Is(start) {
		return countIn(in, dnsTypes)
	}
	file, err := confile.NewReader(in)
	if err != nil {
		return 0, err
	}
	n := 0
	for {
		one, err := file.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if wire.ShortName(one.TypeURL) != "cds" {
			continue
		}
		c, err := wire.ParseCluster(one.Body)
		if err != nil {
			return n, err
		}
		if c.DNS {
			n++
		}
	}
}

// countIn counts texts in a stream. No text may contain another.
func countIn(r io.Reader, texts [][]byte) (int, error) {
	longest := 0
	for _, t := range texts {
		longest = max(longest, len(t))
	}
	n, held := 0, 0
	buffer := make([]byte, 64<<10)
	for {
		got, err := r.Read(buffer[held:])
		window := buffer[:held+got]
		end := 0 // behind the last text found
		for _, t := range texts {
			n += bytes.Count(window, t)
			if i := bytes.LastIndex(window, t); i >= 0 {
				end = max(end, i+len(t))
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		held = copy(buffer, window[max(end, len(window)-longest+1):])
	}
}
