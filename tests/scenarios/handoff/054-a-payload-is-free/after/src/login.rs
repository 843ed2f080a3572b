// the work
