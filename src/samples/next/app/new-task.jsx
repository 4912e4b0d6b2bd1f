"use client";

import { useTokenService, useUsage } from "faregate/react";

export function NewTask() {
  const tokens = useTokenService();
  const { used, limit } = useUsage("tasker-board");
  const create = async () => {
    const answer = await fetch("/tasks", { method: "POST" });
    tokens.update(await answer.text());
  };
  return (
    <button onClick={create}>
      New task ({used} of {limit})
    </button>
  );
}
