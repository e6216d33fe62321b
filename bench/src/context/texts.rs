//! Files and short documents of the measurement `context`.

/// Files of this repository that are continued, with the rest of their folder as context.
pub const FILES: [&str; 10] = [
    "shared-codec/src/scheme/tk_slt.rs",
    "shared-codec/src/frame/request.rs",
    "cloud/src/cli/choose.rs",
    "cloud/src/http/quota.rs",
    "control/src/calibration.rs",
    "models/src/container/safetensors.rs",
    "models/src/chat/calls.rs",
    "speculation/src/judge/verify.rs",
    "papers/src/reproduce/records.rs",
    "bench/src/fleet/players.rs",
];

/// Short documents with a question each, whose answer repeats words of the document.
pub const DOCUMENTS: [(&str, &str); 10] = [
    (
        "The museum opens at nine in the morning and closes at six in the evening. Tickets cost eight euros for \
         adults and four euros for children. On Mondays the museum is closed.",
        "When is the museum open, and what do tickets cost?",
    ),
    (
        "To reset the device, hold the power button for ten seconds until the light turns red. Release the button, \
         wait for one minute, and press it again to start the device.",
        "How is the device reset?",
    ),
    (
        "Our team met on Tuesday to discuss the new schedule. Anna will write the report, Ben will check the numbers, \
         and Carla will send both to the customer before Friday.",
        "Who will do what before Friday?",
    ),
    (
        "Mix the flour with the sugar and the butter. Add two eggs and a little milk, and stir until the dough is \
         smooth. Bake it for forty minutes at one hundred and eighty degrees.",
        "How is the dough made, and how long is it baked?",
    ),
    (
        "The river rises in the mountains, flows through three valleys and two large lakes, and reaches the sea after \
         four hundred kilometres. Its water drives eleven power stations.",
        "Where does the river flow, and what does its water drive?",
    ),
    (
        "Dear Mr. Brown, thank you for your letter of the third of May. We are sorry that your order has not arrived. \
         We have sent it again today, and you will receive it within five days.",
        "What has happened to Mr. Brown's order?",
    ),
    (
        "A queue holds elements in the order in which they were added. The first element that was added is the first \
         one that is removed. A stack removes the last element that was added first.",
        "Which element does a queue remove first, and which does a stack?",
    ),
    (
        "The train to the airport leaves every fifteen minutes from platform two. The journey takes half an hour. Buy \
         your ticket before you board, because there is no conductor on the train.",
        "How often does the train to the airport leave, and why should the ticket be bought first?",
    ),
    (
        "The patient should take one tablet in the morning and one in the evening, with a glass of water. If the \
         fever does not fall within three days, the patient should see a doctor.",
        "How should the patient take the tablets, and when should the patient see a doctor?",
    ),
    (
        "The contract begins on the first of January and ends on the last day of December. Either side may end it \
         earlier with three months' notice. The rent is due on the third day of each month.",
        "When does the contract begin and end, and when is the rent due?",
    ),
];
