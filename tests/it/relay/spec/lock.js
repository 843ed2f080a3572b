// Acquire lock
if (!state.locks[resource]) {
  state.locks[resource] = {
    agent: myName,
    acquired: new Date().toISOString(),
    expires: new Date(Date.now() + 30*60*1000).toISOString()
  };
  saveState(state);
  // Proceed with work
}

// Release lock
delete state.locks[resource];
saveState(state);
