package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/wake"
)

// Numbers of the protocol of netfilter queues
// (linux/netfilter/nfnetlink_queue.h). All numbers in its messages are
// big-endian.
const (
	queuePacket       = unix.NFNL_SUBSYS_QUEUE << 8   // the kernel's: a packet waits
	queueVerdict      = unix.NFNL_SUBSYS_QUEUE<<8 | 1 // ours: of one packet
	queueConfig       = unix.NFNL_SUBSYS_QUEUE<<8 | 2
	queueVerdictBatch = unix.NFNL_SUBSYS_QUEUE<<8 | 3 // of all packets up to one

	configCommand = 1 // command u8, padding, protocol family u16
	configParams  = 2 // bytes of each packet to copy u32, mode u8
	configMaxLen  = 3
	configMask    = 4
	configFlags   = 5

	commandBind   = 1
	modePacket    = 2
	flagGSO       = 4 // keep packets whole that the network card would split
	packetHeader  = 1 // identity u32, protocol u16, hook u8
	verdictHeader = 2 // verdict u32, identity u32
	packetPayload = 10
	packetLength  = 13 // if the payload is not the whole packet

	verdictDrop   = 0
	verdictAccept = 1
)

const (
	// maxQueued limits the packets that the kernel holds for a queue; more
	// are dropped.
	maxQueued = 1 << 16
	// copied is how much of each packet is copied to user space: only the length of a packet
	// is needed, but 0 would copy all of it.
	copied = 20
	// queueBuffer is the size of the socket's buffer; a packet takes some 200 bytes.
	queueBuffer = 8 << 20
	// queueNumbers is the first queue number to try, queueTries how many to try. A pod's own
	// programs may have queues too.
	queueNumbers, queueTries = 0x6d00, 64
	// drainTime limits how long the packets of a queue may take to be released.
	drainTime = 2 * time.Second
)

// queue receives packets from the kernel, holds each as long as its link says, and returns
// it. It owns two goroutines, which end with [queue.end].
type queue struct {
	conn   *netlink.Conn
	number uint16
	link   link
	timer  *wake.Timer

	held    chan heldPacket
	release context.CancelFunc // nothing waits any longer
	ended   sync.WaitGroup
	failed  atomic.Pointer[error]

	delayed, dropped atomic.Int64 // packets
}

// heldPacket waits for its release. The last one is a sentinel without a packet.
type heldPacket struct {
	id   uint32
	due  time.Time
	last bool
}

// openQueue makes a queue in a namespace. Rules send packets to it.
func openQueue(ns *namespace, l link) (*queue, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(ns.Fd())})
	if err != nil {
		return nil, fmt.Errorf("packet queue: %w", err)
	}
	q := &queue{conn: conn, link: l, held: make(chan heldPacket, maxQueued)}
	if err := q.bind(); err != nil {
		return nil, errors.Join(fmt.Errorf("packet queue: %w", err), conn.Close())
	}
	if q.timer, err = wake.New(); err != nil {
		return nil, errors.Join(fmt.Errorf("packet queue: %w", err), conn.Close())
	}
	ctx, release := context.WithCancel(context.Background())
	q.release = release
	q.ended.Go(q.read)
	q.ended.Go(func() { q.releaseDue(ctx) })
	return q, nil
}

// bind takes the first free number and configures the queue.
func (q *queue) bind() error {
	if err := q.conn.SetReadBuffer(queueBuffer); err != nil {
		return err
	}
	// A packet whose message does not fit is dropped with or without an error.
	if err := q.conn.SetOption(netlink.NoENOBUFS, true); err != nil {
		return err
	}
	command := netlink.Attribute{Type: configCommand, Data: []byte{commandBind, 0, 0, unix.AF_UNSPEC}}
	var err error
	for q.number = queueNumbers; q.number < queueNumbers+queueTries; q.number++ {
		if err = q.configure(command); !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EPERM) {
			break // EPERM: another socket has it
		}
	}
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	flags := uint32(flagGSO)
	if q.link.rate > 0 {
		flags = 0 // a line carries packets as they are on the wire
	}
	return q.configure(
		netlink.Attribute{Type: configParams, Data: append(binary.BigEndian.AppendUint32(nil, copied), modePacket)},
		netlink.Attribute{Type: configMaxLen, Data: binary.BigEndian.AppendUint32(nil, maxQueued)},
		netlink.Attribute{Type: configMask, Data: binary.BigEndian.AppendUint32(nil, flagGSO)},
		netlink.Attribute{Type: configFlags, Data: binary.BigEndian.AppendUint32(nil, flags)},
	)
}

func (q *queue) configure(attributes ...netlink.Attribute) error {
	message, err := q.message(queueConfig, netlink.Acknowledge, attributes)
	if err == nil {
		_, err = q.conn.Execute(message)
	}
	return err
}

// message returns a netfilter message: its header is family, version and number of the
// queue.
func (q *queue) message(kind netlink.HeaderType, flags netlink.HeaderFlags, attributes []netlink.Attribute) (netlink.Message, error) {
	data, err := netlink.MarshalAttributes(attributes)
	head := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, q.number)
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags}, Data: append(head, data...)}, err
}

// read receives packets until the kernel acknowledges the message that end sends.
func (q *queue) read() {
	defer func() { q.held <- heldPacket{last: true} }()
	for {
		messages, err := q.conn.Receive()
		now := time.Now()
		if errors.Is(err, unix.ENOENT) { // of a verdict: its packet was dropped when another program removed a hook
			continue
		}
		if err != nil {
			q.fail(errors.Join(err, q.conn.Close())) // without a listener packets pass
			return
		}
		for _, m := range messages {
			if m.Header.Type == netlink.Error { // without an error: an acknowledgement
				return
			}
			if m.Header.Type != queuePacket {
				continue
			}
			id, bytes, err := parsePacket(m.Data)
			if err != nil {
				q.fail(errors.Join(err, q.conn.Close()))
				return
			}
			due, ok := q.link.cross(now.UnixNano(), bytes)
			if !ok {
				q.dropped.Add(1)
				q.verdict(queueVerdict, verdictDrop, id)
				continue
			}
			q.held <- heldPacket{id: id, due: now.Add(time.Duration(due - now.UnixNano()))}
		}
	}
}

// parsePacket parses the kernel's message about a packet.
func parsePacket(data []byte) (id uint32, bytes int, err error) {
	if len(data) < 4 {
		return 0, 0, fmt.Errorf("a message of %d bytes", len(data))
	}
	attributes, err := netlink.UnmarshalAttributes(data[4:])
	if err != nil {
		return 0, 0, err
	}
	known := false
	for _, a := range attributes {
		switch {
		case a.Type == packetHeader && len(a.Data) >= 4:
			id, known = binary.BigEndian.Uint32(a.Data), true
		case a.Type == packetPayload && bytes == 0:
			bytes = len(a.Data)
		case a.Type == packetLength && len(a.Data) >= 4:
			bytes = int(binary.BigEndian.Uint32(a.Data))
		}
	}
	if !known {
		return 0, 0, errors.New("a packet without its ID")
	}
	return id, bytes, nil
}

// releaseDue releases packets when they are due, and immediately once ctx ends. They are due
// in order of arrival, so one message releases all that are.
func (q *queue) releaseDue(ctx context.Context) {
	next := <-q.held
	for !next.last {
		_ = q.timer.Until(ctx, next.due) // if cancelled, it is released immediately
		now := time.Now()
		if ctx.Err() != nil {
			now = now.Add(time.Hour)
		}
		id, count := next.id, int64(1)
		waits := false // next does
		for !waits && len(q.held) > 0 {
			if next = <-q.held; next.last || next.due.After(now) {
				waits = true
			} else {
				id = next.id
				count++
			}
		}
		q.verdict(queueVerdictBatch, verdictAccept, id)
		q.delayed.Add(count)
		if !waits {
			next = <-q.held
		}
	}
}

func (q *queue) verdict(kind netlink.HeaderType, verdict, id uint32) {
	header := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, verdict), id)
	message, err := q.message(kind, 0, []netlink.Attribute{{Type: verdictHeader, Data: header}})
	if err == nil {
		_, err = q.conn.Send(message)
	}
	if err != nil {
		q.fail(err)
	}
}

func (q *queue) fail(err error) { q.failed.CompareAndSwap(nil, &err) }

// err returns why the queue failed, if it did.
func (q *queue) err() error {
	if err := q.failed.Load(); err != nil {
		return fmt.Errorf("packet queue: %w", *err)
	}
	return nil
}

// end releases all packets and closes the queue. Rules must no longer send it packets.
func (q *queue) end() error {
	q.release()
	// The kernel acknowledges this after the last packet in the socket.
	message, err := q.message(queueConfig, netlink.Acknowledge, []netlink.Attribute{{Type: configMaxLen, Data: binary.BigEndian.AppendUint32(nil, maxQueued)}})
	if err == nil {
		_, err = q.conn.Send(message)
	}
	if err == nil {
		err = q.conn.SetReadDeadline(time.Now().Add(drainTime))
	}
	if err != nil { // the reader must end in any case
		q.fail(err)
		_ = q.conn.Close()
	}
	q.ended.Wait()
	q.timer.Close()
	if err := q.err(); err != nil {
		_ = q.conn.Close() // it may be closed already
		return err
	}
	return q.conn.Close()
}
