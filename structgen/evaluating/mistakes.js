// Saves the rows whose expected value was changed, as JSON lines.
const areas = [...document.querySelectorAll("textarea")];
for (const area of areas) {
  area.addEventListener("input", () => {
    area.classList.toggle("changed", area.value !== area.defaultValue);
    try { JSON.parse(area.value); area.classList.remove("wrong"); } catch { area.classList.add("wrong"); }
  });
}
for (const button of document.querySelectorAll(".take")) {
  button.addEventListener("click", () => {
    const area = button.previousElementSibling;
    area.value = button.dataset.given;
    area.dispatchEvent(new Event("input"));
  });
}
document.getElementById("save").addEventListener("click", () => {
  const changed = areas.filter((area) => area.matches(".changed:not(.wrong)"));
  const lines = changed.map((area) => {
    const row = JSON.parse(area.closest("[data-row]").dataset.row);
    return JSON.stringify({ ...row, expected: JSON.parse(area.value) }) + "\n";
  });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  link.download = "corrected.jsonl";
  link.click();
});
