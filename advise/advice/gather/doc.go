// Package gather collects evidence for advice: for each cell of a run ([OfRun]), from
// its findings, its trials' records and its recorded metrics, or from any source of
// istiod's metrics ([Metrics]), such as a running istiod that is watched for a while.
package gather
