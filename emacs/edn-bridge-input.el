;;; edn-bridge-input.el --- What the user says in a chat  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Sends the draft of a chat: as a prompt, as a slash command, or into the
;; turn that is running.  Aborts and interrupts.  Remembers what was sent.

;;; Code:

(require 'cl-lib)
(require 'ring)
(require 'subr-x)
(require 'edn-bridge-chat)
(require 'edn-bridge-messages)
(require 'edn-bridge-said)
(require 'edn-bridge-complete)

(defvar-local edn-bridge-input-images nil
  "Images that go with the next message, last first.
Each is a property list of `:mime-type' and `:data', in base64.")

(defun edn-bridge-input-set-images (images)
  "Have IMAGES, last first, go with the next message, and show how many."
  (setq edn-bridge-input-images images)
  (edn-bridge-chat-set-status
   'edn-bridge-input
   (and images
        (list (format (if (cdr images)
                          "%d images go with the next message"
                        "%d image goes with the next message")
                      (length images))))))

(defvar-local edn-bridge-input--history nil
  "Ring of the texts sent.")

(defvar-local edn-bridge-input--history-index nil
  "Place in the history that the draft came from, or nil.")

;;;; Sending

(defvar edn-bridge-input-send-hook nil
  "Normal hook run in a chat buffer before something is sent to the model.")

(defconst edn-bridge-input--command-regexp
  "\\`/\\(?:mcp__[A-Za-z0-9_-]+\\|[a-z?][a-z-]*\\)\\(?:[ \t\n]\\|\\'\\)"
  "Matches a draft that is a slash command.")

(defvar edn-bridge-input--commands nil
  "Slash commands that Emacs does by itself: an alist of names and commands.")

(defun edn-bridge-input-handle (name command &optional description)
  "Have the slash command NAME, without arguments, call COMMAND.
That is for what Emacs can show better than the bridge can tell.  One that
the bridge does not have comes with a DESCRIPTION, and is completed."
  (when description
    (edn-bridge-complete-add-command name description))
  (setf (alist-get name edn-bridge-input--commands nil nil #'equal) command))

(defconst edn-bridge-input--shell-regexp
  "\\`!\\(!\\)?[ \t]*\\([^[! \t\n]\\(?:.\\|\n\\)*\\)\\'"
  "Matches a draft that is a command for the shell.
An image in Markdown, which begins with ![, is none.")

(defvar edn-bridge-input--shell #'ignore
  "Function that runs a command for the shell.")

(defvar edn-bridge-input--before #'ignore
  "Function that returns what goes before the next message, or nil.")

(defun edn-bridge-input-handle-shell (run before)
  "Have RUN run the commands for the shell in the draft.
It is called with the command, and non-nil if the model gets the output.
BEFORE is called without arguments when a message is sent, and returns what
goes before its text, or nil."
  (setq edn-bridge-input--shell run
        edn-bridge-input--before before))

(defun edn-bridge-input-send ()
  "Send the region where it is active, else the draft.
While a turn is running the text steers it: the model sees it after the
running tool call."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-input--send "steer"))

(defun edn-bridge-input-queue ()
  "Queue the region where it is active, else the draft, for after the turn."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-input--send "queue"))

(defun edn-bridge-input--send (behavior)
  "Send the region or the draft; with BEHAVIOR while a turn is running."
  (edn-bridge-chat-current)
  (let* ((region (use-region-p))
         (text (string-trim
                (if region
                    (buffer-substring-no-properties (region-beginning)
                                                    (region-end))
                  (edn-bridge-transcript-draft))))
         (shell nil))
    (when (equal text "")
      (user-error "There is nothing to send"))
    (setq shell (and (not region)
                     (string-match edn-bridge-input--shell-regexp text)))
    (when shell
      ;; Where it cannot be run, it stays the draft.
      (funcall edn-bridge-input--shell (match-string 2 text)
               (not (match-string 1 text))))
    (if region
        (deactivate-mark)
      (edn-bridge-transcript-reset-draft))
    (edn-bridge-input--remember text)
    (let ((command (and (string-prefix-p "/" text)
                        (cdr (assoc (substring text 1)
                                    edn-bridge-input--commands)))))
      (cond
       (shell)
       (command (call-interactively command))
       (t (edn-bridge-input-send-text text behavior (not region)))))))

;;;; RET

(defcustom edn-bridge-input-return-sends nil
  "Non-nil means that RET sends the draft.
`edn-bridge-input-newline' breaks the line then, and so does RET within a
block of code that is not closed.  By default RET breaks the line, and
`edn-bridge-input-send' has a key of its own."
  :type 'boolean
  :group 'edn-bridge)

(defun edn-bridge-input-return ()
  "Send the draft if `edn-bridge-input-return-sends' says so, or break the line."
  (interactive nil edn-bridge-chat-mode)
  (if (and edn-bridge-input-return-sends
           (edn-bridge-transcript-in-draft-p)
           (not (edn-bridge-input--in-fence-p)))
      (edn-bridge-input-send)
    (edn-bridge-input-newline)))

(defun edn-bridge-input-newline ()
  "Break the line of the draft."
  (interactive nil edn-bridge-chat-mode)
  (call-interactively #'newline))

(defun edn-bridge-input--in-fence-p ()
  "Return non-nil if point is in a block of code of the draft that is open."
  (save-excursion
    (let ((end (point))
          (fence nil))
      (goto-char (edn-bridge-transcript-draft-start))
      (while (re-search-forward
              "^ \\{0,3\\}\\(\\(?:```+\\|~~~+\\)\\)\\(.*\\)$" end t)
        (let ((mark (match-string-no-properties 1))
              (rest (match-string-no-properties 2)))
          (cond
           ((null fence)
            (unless (and (eq (aref mark 0) ?`) (string-search "`" rest))
              (setq fence mark)))
           ;; A fence is closed by one of its kind that is as long.
           ((and (string-prefix-p fence mark) (string-blank-p rest))
            (setq fence nil)))))
      fence)))

(defun edn-bridge-input-longest-fence (text)
  "Return the length of the longest run of backquotes in TEXT."
  (let ((longest 0)
        (start 0))
    (while (string-match "`+" text start)
      (setq longest (max longest (- (match-end 0) (match-beginning 0)))
            start (match-end 0)))
    longest))

(defun edn-bridge-input-send-text (text &optional behavior draft)
  "Send TEXT: a slash command, or what the model is to see.
BEHAVIOR is \"steer\" or \"queue\", what becomes of it while a turn is
running.  With DRAFT non-nil, TEXT is put back where it is refused."
  (edn-bridge-chat-current)
  (let* ((case-fold-search nil)
         (command (string-match-p edn-bridge-input--command-regexp text))
         (images (and (not command) (reverse edn-bridge-input-images)))
         (running (edn-bridge-chat-running-p))
         (text (concat (and (not command)
                            (funcall edn-bridge-input--before))
                       text))
         (said nil))
    (when images
      (edn-bridge-input-set-images nil))
    (unless command
      (run-hooks 'edn-bridge-input-send-hook))
    (setq said (edn-bridge-said-show text (and running (not command) behavior)
                                     images command))
    ;; Whoever sends wants to see what comes.  Where the chat is in another
    ;; window too, that stays as it was scrolled.
    (when-let ((window (if (eq (window-buffer) (current-buffer))
                           (selected-window)
                         (get-buffer-window nil t))))
      (set-window-point window (point-max)))
    (edn-bridge-transcript-fill-windows)
    (unless (or command running)
      (setq edn-bridge-chat--last-prompt text))
    (setf (edn-bridge-said-images said) images
          (edn-bridge-said-op said)
          (cond (command "command")
                ((not running) "prompt")
                (t (edn-bridge-input--op behavior))))
    (unless command
      (setf (edn-bridge-said-key said) (edn-bridge-input--key)))
    (edn-bridge-input--deliver said (or behavior "steer") draft)))

(defvar edn-bridge-input--keys 0
  "How many keys were made.")

(defconst edn-bridge-input--key-prefix
  (substring (md5 (format "%S %d %d" (current-time) (emacs-pid)
                          (random most-positive-fixnum)))
             0 16)
  "Tells the keys of this Emacs from those of others.")

(defun edn-bridge-input--key ()
  "Return a new key, by which the bridge knows a message that comes twice."
  (format "emacs-%s-%d" edn-bridge-input--key-prefix
          (cl-incf edn-bridge-input--keys)))

(defun edn-bridge-input--deliver (said behavior draft)
  "Send SAID; with BEHAVIOR where another client has begun a turn meanwhile.
With DRAFT non-nil its text is put back where it is refused."
  (edn-bridge-input--request
   said
   (lambda (frame)
     (if (equal (plist-get frame :error-code) "request/session-not-idle")
         (progn
           (edn-bridge-said-wait said behavior)
           (setf (edn-bridge-said-op said) (edn-bridge-input--op behavior))
           (edn-bridge-input--request
            said
            (lambda (frame)
              (edn-bridge-input--refused said frame draft))))
       (edn-bridge-input--refused said frame draft)))))

(defun edn-bridge-input--op (behavior)
  "Return the op that sends a message with BEHAVIOR while a turn is running.
The bridge starts a turn for what it cannot add to one, so that a turn which
ends meanwhile does no harm."
  (if (equal behavior "queue") "follow_up" "steer"))

(defun edn-bridge-input--request (said on-error)
  "Send SAID by its op; ON-ERROR is called with the error's frame."
  (let ((conn (edn-bridge-chat-current))
        (op (edn-bridge-said-op said))
        (images (edn-bridge-said-images said))
        (key (edn-bridge-said-key said)))
    (setf
     (edn-bridge-said-id said)
     (edn-bridge-rpc-request
      conn op
      (append (list (if (equal op "command") :text :message)
                    (edn-bridge-said-text said))
              (and images (list :images (vconcat images)))
              (and key (list :idempotency-key key)))
      :on-success
      (lambda (data)
        (edn-bridge-chat-with-buffer conn
          (if (edn-bridge-edn-true-p (plist-get data :duplicate))
              (edn-bridge-said-note-known said)
            (edn-bridge-said-note-accepted said))))
      :on-error
      (lambda (frame)
        (edn-bridge-chat-with-buffer conn
          (funcall on-error frame)))))))

(defvar-local edn-bridge-input--lost nil
  "What was sent and not answered before its connection ended, last first.
An `edn-bridge-said' each.")

(defun edn-bridge-input--refused (said frame draft)
  "Say that SAID was refused by the error FRAME.
With DRAFT non-nil it becomes the draft again, unless there is another.
Where the connection ended before an answer, it may have arrived all the
same: it is sent again, with its key, once there is a new connection."
  (let* ((live (edn-bridge-rpc-live-p edn-bridge-chat--conn))
         (images (edn-bridge-said-images said))
         (again (and (not live) (edn-bridge-said-key said)))
         (back (and live draft (equal (edn-bridge-transcript-draft) ""))))
    (edn-bridge-said-note-refused said (if again 'again (not back)))
    (when (and images (not again))
      (edn-bridge-input-set-images
       (append edn-bridge-input-images (reverse images))))
    (when again
      (push said edn-bridge-input--lost))
    (when live
      (edn-bridge-chat-notice (edn-bridge-input--failure frame)
                              'edn-bridge-error))
    (when back
      (edn-bridge-transcript-set-draft (edn-bridge-said-text said)))))

(defun edn-bridge-input--repeat-lost ()
  "Send again what got no answer from the session that is shown."
  (let ((lost (reverse edn-bridge-input--lost)))
    (setq edn-bridge-input--lost nil)
    (dolist (said lost)
      (if (not (equal (edn-bridge-said-session said)
                      edn-bridge-chat--session-id))
          (push said edn-bridge-input--lost)
        (edn-bridge-said-again said)
        (edn-bridge-input--deliver
         said (or (edn-bridge-said-behavior said) "steer") t)))))

(defun edn-bridge-input--failure (frame)
  "Return what to tell the user about the error FRAME."
  (let ((nearest (append (plist-get (plist-get frame :data) :nearest) nil)))
    (concat (plist-get frame :error-message)
            (if (and nearest
                     ;; The bridge may have named one itself.
                     (not (string-search "Did you mean"
                                         (plist-get frame :error-message))))
                (format "  Did you mean %s?"
                        (mapconcat #'edn-bridge-chat-word nearest ", "))
              ""))))

(defvar edn-bridge-input-abort-hook nil
  "Normal hook run in a chat buffer when what it does is to end.")

(defun edn-bridge-input-abort ()
  "Abort the turn that is running, and a login that is under way.
The queue is held back until the next message, or until
`edn-bridge-queue-resume'."
  (interactive nil edn-bridge-chat-mode)
  (run-hooks 'edn-bridge-input-abort-hook)
  (edn-bridge-rpc-request (edn-bridge-chat-current) "abort" nil
                          :on-success #'ignore))

(defun edn-bridge-input-interrupt ()
  "End the turn after the tool call that is running.
Steering text that the model did not see comes back as the draft."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn "interrupt" nil
     :on-success
     (lambda (data)
       (let ((text (plist-get data :dropped-steering-text)))
         (edn-bridge-chat-with-buffer conn
           (when (and (stringp text) (not (equal text "")))
             (edn-bridge-said-drop-steering)
             (when (equal (edn-bridge-transcript-draft) "")
               (edn-bridge-transcript-set-draft text)))))))))

(defconst edn-bridge-input--again "Try again"
  "Label of the button that asks the model again.")

(defconst edn-bridge-input--continue "Continue"
  "Label of the button that has the model continue a turn that was cut.")

(defun edn-bridge-input--drop-offers ()
  "Delete the buttons at the end that ask the model again: it was asked.
That may be by a key, a command, another message or another client."
  (edn-bridge-transcript-edit
    (dolist (label (list edn-bridge-input--again edn-bridge-input--continue))
      (goto-char (edn-bridge-transcript-end))
      (let* ((label (concat " [" label "]"))
             (limit (max (point-min) (- (point) 20000))))
        (while (search-backward label limit t)
          (when (get-char-property (1+ (point)) 'button)
            (delete-region (point) (+ (point) (length label)))))))))

(defvar-local edn-bridge-input--interrupted nil
  "Non-nil if the bridge ended in the last turn of the messages.")

(defun edn-bridge-input--note-interrupted (data)
  "Note whether the last turn of the messages in DATA was cut off."
  (let* ((messages (plist-get data :messages))
         (last (and (> (length messages) 0)
                    (aref messages (1- (length messages)))))
         (turn (plist-get last :turn-id)))
    (setq edn-bridge-input--interrupted
          (and turn (seq-contains-p (plist-get data :interrupted) turn)))))

(defun edn-bridge-input--forget-cut ()
  "Where the bridge ended in the last turn, that says more than a lost line."
  (when edn-bridge-input--interrupted
    (setq edn-bridge-chat--cut nil)))

(defun edn-bridge-input--show-cut ()
  "Where the last turn was cut, show that, with a button that sends it again."
  (when edn-bridge-chat--cut
    (setq edn-bridge-chat--cut nil)
    (edn-bridge-input--offer-again
     "The connection was lost while the last turn was running."
     edn-bridge-chat--last-prompt)))

(defun edn-bridge-input--offer-again (reason text)
  "Say REASON, with a button that asks the model again.
A bridge that cannot do that gets TEXT again."
  (edn-bridge-chat-notice
   reason 'edn-bridge-error
   (list edn-bridge-input--again
         (lambda ()
           (interactive)
           (cond
            ((edn-bridge-edn-true-p (edn-bridge-chat-get :can-retry))
             (edn-bridge-input-retry))
            (text
             (edn-bridge-input-send-text text))
            (t
             (user-error "There is nothing to try again")))))))

(defun edn-bridge-input-retry ()
  "Ask the model again for an answer to the last message.
An answer that failed or was aborted is replaced."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-input--ask-again "retry"))

(defun edn-bridge-input-continue ()
  "Have the model continue an answer or a turn that was cut.
What it said and did stays."
  (interactive nil edn-bridge-chat-mode)
  (edn-bridge-input--ask-again "continue_turn"))

(defun edn-bridge-input--ask-again (op)
  "Have the model asked again by OP, once."
  (let ((conn (edn-bridge-chat-current)))
    (edn-bridge-rpc-request
     conn op (list :idempotency-key (edn-bridge-input--key))
     :on-success (lambda (_data)
                   (edn-bridge-chat-with-buffer conn
                     (edn-bridge-input--drop-offers)))
     :on-error (lambda (frame)
                 (edn-bridge-chat-with-buffer conn
                   (edn-bridge-chat-notice (plist-get frame :error-message)
                                           'edn-bridge-error))))))

(defun edn-bridge-input--show-retry (data)
  "Say above the draft whether there is something to try again.
DATA of `session/updated' tells."
  (when (edn-bridge-chat-mine-p data)
    (edn-bridge-chat-set-status
     'edn-bridge-input-retry
     (and (edn-bridge-edn-true-p (plist-get data :can-retry))
          (list (edn-bridge-faces-keys
                 "\\[edn-bridge-input-retry] asks the model again"))))))

(defun edn-bridge-input--on-message (data)
  "Where the answer in DATA failed, offer to send its message again."
  (let ((failure (plist-get data :error-message))
        (text edn-bridge-chat--last-prompt))
    (when (and text
               (stringp failure)
               (not (equal failure ""))
               (edn-bridge-chat-mine-p data))
      (edn-bridge-messages-as-part (plist-get data :entry-id)
        (edn-bridge-input--offer-again "There is no answer to your message."
                                       text)))))

(defvar-local edn-bridge-input--unanswered nil
  "Text of the last message of the journal, where that is the user's.")

(defun edn-bridge-input--note-unanswered (data)
  "Note whether the last of the `:messages' in DATA waits for an answer."
  (let* ((messages (plist-get data :messages))
         (last (and (> (length messages) 0)
                    (aref messages (1- (length messages)))))
         (text (and last
                    (not edn-bridge-chat--cut)
                    (not edn-bridge-input--interrupted)
                    (equal (edn-bridge-chat-word (plist-get last :role)) "user")
                    (edn-bridge-messages-text last))))
    (setq edn-bridge-input--unanswered (and (not (equal text "")) text))))

(defun edn-bridge-input--show-unanswered (data)
  "Where no turn runs for the last message, which has no answer, say so.
Whether one runs DATA of `session/updated' tells.  Such a message stands
in a journal whose program ended when no chat was there to see it."
  (when (and edn-bridge-input--unanswered
             (edn-bridge-chat-mine-p data))
    (let ((text edn-bridge-input--unanswered))
      (setq edn-bridge-input--unanswered nil)
      (unless (edn-bridge-chat-running-p)
        (edn-bridge-input--offer-again "This message has no answer." text)))))

;;;; History

(defun edn-bridge-input--remember (text)
  "Add TEXT to the history."
  (setq edn-bridge-input--history-index nil)
  (unless (and (not (ring-empty-p edn-bridge-input--history))
               (equal text (ring-ref edn-bridge-input--history 0)))
    (ring-insert edn-bridge-input--history text)))

(defun edn-bridge-input--remember-journal (data)
  "Where nothing was sent from here yet, remember what DATA says that was sent.
DATA has the `:messages' of the session that is shown."
  (when (ring-empty-p edn-bridge-input--history)
    (seq-do (lambda (message)
              (let ((text (edn-bridge-messages-text message)))
                (when (and (equal (edn-bridge-chat-word
                                   (plist-get message :role))
                                  "user")
                           (not (equal text "")))
                  (edn-bridge-input--remember text))))
            (plist-get data :messages))))

(defun edn-bridge-input-previous (count)
  "Make the draft what was sent COUNT inputs before."
  (interactive "p" edn-bridge-chat-mode)
  (when (ring-empty-p edn-bridge-input--history)
    (user-error "Nothing was sent yet"))
  (let ((index (+ (or edn-bridge-input--history-index -1) count)))
    (cond
     ((< index 0)
      (setq edn-bridge-input--history-index nil)
      (edn-bridge-transcript-set-draft ""))
     ((>= index (ring-length edn-bridge-input--history))
      (user-error "This is the first input"))
     (t
      (setq edn-bridge-input--history-index index)
      (edn-bridge-transcript-set-draft
       (ring-ref edn-bridge-input--history index))))))

(defun edn-bridge-input-next (count)
  "Make the draft what was sent COUNT inputs later."
  (interactive "p" edn-bridge-chat-mode)
  (edn-bridge-input-previous (- count)))

(defun edn-bridge-input-search (text)
  "Make TEXT, read with completion from what was sent, the draft."
  (interactive
   (list (edn-bridge-complete-choose
          "Input: " 'edn-bridge-input
          (ring-elements edn-bridge-input--history) #'identity))
   edn-bridge-chat-mode)
  (edn-bridge-transcript-set-draft text))

;;;; Registering

(setq edn-bridge-messages-continue-button
      (list edn-bridge-input--continue #'edn-bridge-input-continue))

(defun edn-bridge-input--setup ()
  "Give this chat a history."
  (setq edn-bridge-input--history (make-ring 200)))

(add-hook 'edn-bridge-chat-mode-hook #'edn-bridge-input--setup)
(add-hook 'edn-bridge-chat-rebuilt-hook #'edn-bridge-input--show-cut)
;; Before that.
(add-hook 'edn-bridge-chat-rebuilt-hook #'edn-bridge-input--forget-cut)
(add-hook 'edn-bridge-chat-rebuilt-hook #'edn-bridge-input--repeat-lost t)
(add-hook 'edn-bridge-chat-followed-hook #'edn-bridge-input--repeat-lost t)
(add-hook 'edn-bridge-chat-rebuild-functions
          #'edn-bridge-input--remember-journal)
(add-hook 'edn-bridge-chat-rebuild-functions
          #'edn-bridge-input--note-unanswered)
(add-hook 'edn-bridge-chat-rebuild-functions
          #'edn-bridge-input--note-interrupted)
(edn-bridge-chat-handle "session/updated" #'edn-bridge-input--show-unanswered)
(edn-bridge-chat-handle "session/updated" #'edn-bridge-input--show-retry)
(add-hook 'edn-bridge-chat-turn-begin-hook #'edn-bridge-input--drop-offers)
(edn-bridge-chat-handle "assistant/message" #'edn-bridge-input--on-message)

(let ((map edn-bridge-chat-mode-map))
  (define-key map (kbd "RET") #'edn-bridge-input-return)
  (define-key map (kbd "S-<return>") #'edn-bridge-input-newline)
  (define-key map (kbd "C-j") #'edn-bridge-input-newline)
  (define-key map (kbd "C-c RET") #'edn-bridge-input-send)
  (define-key map (kbd "C-c C-q") #'edn-bridge-input-queue)
  (define-key map (kbd "C-c C-k") #'edn-bridge-input-abort)
  (define-key map (kbd "C-c C-i") #'edn-bridge-input-interrupt)
  (define-key map (kbd "C-c M-r") #'edn-bridge-input-retry)
  (define-key map (kbd "C-c M-c") #'edn-bridge-input-continue)
  (define-key map (kbd "M-p") #'edn-bridge-input-previous)
  (define-key map (kbd "M-n") #'edn-bridge-input-next)
  (define-key map (kbd "M-r") #'edn-bridge-input-search))

(provide 'edn-bridge-input)

;;; edn-bridge-input.el ends here
